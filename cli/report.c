/* SPDX-License-Identifier: MIT */
/*
 * waymark report: what a trace holds, summed up.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "cli/pulse.h"
#include "cli/samples_view.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <waymark/error.h>

static const char usage[] =
	"Usage: waymark report [OPTION] DIR\n"
	"Sum up the trace in DIR: what was recorded, how often, what was lost, how long spans took, and\n"
	"where threads were when samples were taken.\n"
	"\n"
	"Only the samples (record -e sample:cpu-clock/callchain/):\n"
	"  --functions which functions they are in, and which called these\n"
	"  --lines     which lines of source\n"
	"  --callers FUNCTION  what called it; may be a glob\n"
	"  --threads   which threads\n"
	"\n"
	"  -n, --last N  N rows of each table of samples (default 20; 0: all)\n"
	"  --event NAME  only samples of this event; may be a glob\n"
	"  --tid T     only samples of this thread\n"
	"  --pid P     only samples of this process\n"
	"  --root DIR  find the program's files below DIR, as they were on another machine\n"
	"  --no-parameters  name functions without parameters: f, and not f(int)\n"
	"  --json      as one JSON object\n"
	"  --repair    first cut torn packets off, so that every CTF reader can read the trace; what is\n"
	"              cut off is kept in hidden files beside the streams\n"
	"  -h, --help  this\n"
	"\n"
	"Quantiles of spans are off by 1 in 32 at most; min and max are exact.\n";

struct report_options {
	const char *dir;
	int json, repair;
	int is_of_samples; /* nothing else is wanted */
	struct report_samples_options samples;
};

static int take_view(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct report_options *options = data;

	(void)name;
	options->samples.by = (enum samples_by)option->min;
	options->samples.callee = text;
	options->samples.samples.wants_trails = options->samples.by == SAMPLES_BY_CALLER;
	options->is_of_samples = 1;
	return CLI_FINE;
}

#define VIEW(word, kind)                                                                           \
	{                                                                                          \
		word, 0, COMMAND_CALL, .min = kind, .take = take_view, .has_no_value = 1           \
	}

static const struct command_option table[] = {
	VIEW("functions", SAMPLES_BY_FUNCTION),
	VIEW("lines", SAMPLES_BY_LINE),
	VIEW("threads", SAMPLES_BY_THREAD),
	{ "callers", 0, COMMAND_CALL, .min = SAMPLES_BY_CALLER, .take = take_view },
	{ "last", 'n', COMMAND_NUMBER, COMMAND_TO(report_options, samples.last),
	  .max = UINT64_MAX - 1 },
	{ "event", 0, COMMAND_TEXT, COMMAND_TO(report_options, samples.samples.event) },
	{ "tid", 0, COMMAND_ID, COMMAND_TO(report_options, samples.samples.tid) },
	{ "pid", 0, COMMAND_ID, COMMAND_TO(report_options, samples.samples.pid) },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(report_options, samples.samples.image.root) },
	{ "no-parameters", 0, COMMAND_FLAG,
	  COMMAND_TO(report_options, samples.samples.image.with_parameters) },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(report_options, json), .min = 1 },
	{ "repair", 0, COMMAND_FLAG, COMMAND_TO(report_options, repair), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "report", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct report_options *options, int argc, char **argv)
{
	int status;

	*options = (struct report_options){ .samples = { .last = SAMPLES_ROWS_DEFAULT } };
	options->samples.samples.image.with_parameters = 1;
	options->samples.samples.beat = pulse_beat;
	status = command_line_read(&line, argc, argv, options);
	if (!options->samples.last)
		options->samples.last = UINT64_MAX;
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

static int show_samples(const struct report_options *options, const struct report_samples *samples)
{
	static struct out out;
	struct json json = { &out, 0 };

	if (!samples->samples.sum_count)
		return complain(-WM_E_NOT_RECORDED, "samples%s: %s",
				options->samples.samples.event || options->samples.samples.pid ||
						options->samples.samples.tid
					? " of that event, process or thread"
					: "",
				options->dir);
	if (!options->json) {
		report_samples_text(samples);
		return CLI_FINE;
	}
	out_init(&out, STDOUT_FILENO);
	json_open(&json, NULL, '{');
	json_string(&json, "trace", options->dir);
	report_samples_json(samples, &json);
	json_close(&json, '}');
	out_char(&out, '\n');
	out_flush(&out);
	return out.error ? complain(out.error, "standard output") : CLI_FINE;
}

/* Nothing but the samples. Returns an exit status. */
static int report_only_samples(const struct report_options *options)
{
	struct report_samples samples;
	int err = report_samples(&samples, options->dir, &options->samples), status;

	status = err ? complain(err, "%s", options->dir) : show_samples(options, &samples);
	errno = 0;
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_FINE)
		status = complain(errno ? -errno : -EIO, "standard output");
	if (samples.tables)
		samples_complain(&samples.samples);
	if (samples.reader && damage_complain(samples.reader, options->dir) != CLI_FINE &&
	    status == CLI_FINE)
		status = CLI_FAILED;
	report_samples_release(&samples);
	return status;
}

static int report_read(struct report *report, const struct report_samples_options *samples)
{
	int err = summary_make(&report->summary, report->reader);

	if (!err)
		err = report_trails(&report->trails, report->reader);
	if (!err)
		err = report_watches(&report->watches, report->reader, report->dir);
	if (!err)
		err = report_threads(&report->threads, report->reader, report->summary,
				     report->dir);
	if (!err)
		err = report_samples(&report->samples, report->dir, samples);
	return err;
}

static void report_release(struct report *report)
{
	report_samples_release(&report->samples);
	report_threads_release(&report->threads);
	report_watches_release(&report->watches);
	summary_free(report->summary);
	trace_reader_close(report->reader);
}

/* Returns the exit status. */
static int report_print(struct report *report, int is_json)
{
	int err = 0, status;

	errno = 0;
	if (is_json)
		err = report_json(report);
	else
		report_text(report);
	status = damage_complain(report->reader, report->dir);
	if (fflush(stdout) || ferror(stdout))
		err = errno ? -errno : -EIO;
	if (report->samples.tables)
		samples_complain(&report->samples.samples);
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
	if (options.is_of_samples)
		return report_only_samples(&options);
	err = trace_reader_open(&report.reader, options.dir);
	if (!err)
		err = report_read(&report, &options.samples);
	status = err ? complain(err, "%s", options.dir) : report_print(&report, options.json);
	report_release(&report);
	return status;
}
