/* SPDX-License-Identifier: MIT */
/*
 * waymark report: what a trace holds, summed up.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdio.h>

static const char usage[] =
	"Usage: waymark report [OPTION] DIR\n"
	"Sum up the trace in DIR: what was recorded, how often, what was lost, and how long spans took.\n"
	"\n"
	"  --json      as one JSON object\n"
	"  --repair    first cut torn packets off, so that every CTF reader can read the trace; what is\n"
	"              cut off is kept in hidden files beside the streams\n"
	"  -h, --help  this\n"
	"\n"
	"Quantiles of spans are off by 1 in 32 at most; min and max are exact.\n";

struct report_options {
	const char *dir;
	int json, repair;
};

static const struct option table[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "repair", no_argument, NULL, 'r' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_option(void *data, int id, const char *text)
{
	struct report_options *options = data;
	(void)text;
	options->json |= id == 'j';
	options->repair |= id == 'r';
	return 0;
}

static const struct command_line line = { "report", usage, "h", table, take_option };

/* -1 to continue, else the exit status. */
static int read_options(struct report_options *options, int argc, char **argv)
{
	int status;

	*options = (struct report_options){ 0 };
	status = command_line_read(&line, argc, argv, options);
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

static int report_read(struct report *report)
{
	int err = summary_make(&report->summary, report->reader);

	if (!err)
		err = report_trails(&report->trails, report->reader);
	if (!err)
		err = report_watches(&report->watches, report->reader, report->dir);
	if (!err)
		err = report_threads(&report->threads, report->reader, report->summary,
				     report->dir);
	return err;
}

static void report_release(struct report *report)
{
	report_threads_release(&report->threads);
	report_watches_release(&report->watches);
	summary_free(report->summary);
	trace_reader_close(report->reader);
}

/* Returns the exit status. */
static int report_print(const struct report *report, int is_json)
{
	int err = 0, status;

	errno = 0;
	if (is_json)
		err = report_json(report);
	else
		report_text(report);
	status = complain_damage(report->reader, report->dir);
	if (fflush(stdout) || ferror(stdout))
		err = errno ? -errno : -EIO;
	return err ? complain(err, "standard output") : status;
}

int cmd_report(int argc, char **argv)
{
	struct report_options options;
	struct report report = { 0 };
	int err, status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	report.dir = options.dir;
	if (options.repair) {
		err = trace_repair(options.dir);
		if (err < 0)
			return complain(err, "%s", options.dir);
		if (!options.json)
			printf("Repaired     %d streams\n", err);
	}
	err = trace_reader_open(&report.reader, options.dir);
	if (!err)
		err = report_read(&report);
	status = err ? complain(err, "%s", options.dir) : report_print(&report, options.json);
	report_release(&report);
	return status;
}
