/* SPDX-License-Identifier: MIT */
/*
 * waymark report: what a trace holds, summed up.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "cli/output.h"
#include "cli/pulse.h"
#include "cli/trail_view.h"
#include "trace/writer.h"

#include <stdio.h>
#include <unistd.h>
#include <waymark/error.h>

static const char usage
	[] = "Usage: waymark report [OPTION] DIR\n"
	     "Sum up the trace in DIR: what was recorded, how often, what was lost, how long spans\n"
	     "took, and where threads were when samples were taken.\n"
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
	     "  --csv       as CSV, one table after another\n"
	     "  --repair    first cut torn packets off, so that every CTF reader can read the trace;\n"
	     "              what is cut off is kept in hidden files beside the streams\n"
	     "  -h, --help  this\n"
	     "\n"
	     "Quantiles of spans are off by 1 in 32 at most; min and max are exact.\n";

struct report_options {
	const char *dir;
	enum rows_format format;
	int repair;
	int is_of_samples; /* nothing else is wanted */
	struct report_samples_options samples;
	struct image_options image;
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
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(report_options, image.root) },
	{ "no-parameters", 0, COMMAND_FLAG, COMMAND_TO(report_options, image.with_parameters) },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(report_options, format), .min = ROWS_JSON },
	{ "csv", 0, COMMAND_FLAG, COMMAND_TO(report_options, format), .min = ROWS_CSV },
	{ "repair", 0, COMMAND_FLAG, COMMAND_TO(report_options, repair), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "report", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct report_options *options, int argc, char **argv)
{
	int status;

	*options = (struct report_options){ .samples = { .last = SAMPLES_ROWS_DEFAULT } };
	options->image.with_parameters = 1;
	options->samples.samples.beat = pulse_beat;
	status = command_line_read(&line, argc, argv, options);
	if (!options->samples.last)
		options->samples.last = UINT64_MAX;
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

/* Print it all, or nothing but the samples. Returns an exit status. */
static int report_show(const struct report *report, const struct report_options *options)
{
	const struct samples_options *wanted = &options->samples.samples;
	struct rows *rows;

	if (options->is_of_samples && !report->samples.samples.sum_count)
		return complain(-WM_E_NOT_RECORDED, "samples%s: %s",
				wanted->event || wanted->pid || wanted->tid
					? " of that event, process or thread"
					: "",
				options->dir);
	rows = output_rows(options->format);
	if (options->is_of_samples)
		report_samples_print(&report->samples, rows);
	else
		report_print(report, rows);
	return output_rows_end(CLI_FINE);
}

/* One pass for what is in the order of time: threads, hits, samples. */
static int report_observe(struct report *report)
{
	struct pass_observer *observers[3];
	unsigned int count = 0;
	int err;

	if (report->threads.switches.reading)
		observers[count++] = &report->threads.switches.observer;
	if (report->watches.writers)
		observers[count++] = &report->watches.observer;
	if (report->samples.samples.reading)
		observers[count++] = &report->samples.samples.observer;
	err = count ? pass_read(report->reader, observers, count) : 0;
	if (!err && report->threads.switches.reading)
		err = report_threads_finish(&report->threads);
	if (!err && report->samples.samples.reading)
		err = report_samples_finish(&report->samples);
	return err;
}

static int report_read(struct report *report, const struct report_options *options)
{
	struct trace_reader *reader = report->reader;
	int err = images_open(&report->images, reader, &options->image);

	if (!err && !options->is_of_samples) {
		err = summary_make(&report->summary, reader);
		if (!err)
			err = report_trails(&report->trails, reader);
		reader->is_noted = 1;
		if (!err)
			err = watch_wheres_read(&report->wheres, &report->images);
		if (!err)
			err = report_watches(&report->watches, reader, report->wheres);
		if (!err)
			err = report_threads(&report->threads, reader, report->summary,
					     report->wheres);
	}
	if (!err)
		err = report_samples(&report->samples, &report->images, &options->samples);
	return err ? err : report_observe(report);
}

static void report_release(struct report *report)
{
	report_samples_release(&report->samples);
	report_threads_release(&report->threads);
	report_watches_release(&report->watches);
	watch_wheres_free(report->wheres);
	images_close(&report->images);
	summary_free(report->summary);
	trace_reader_close(report->reader);
}

/* Read and print. Returns an exit status. */
static int report_make(struct report *report, const struct report_options *options)
{
	int err = trace_reader_open(&report->reader, options->dir), status;

	if (!err)
		err = report_read(report, options);
	status = err ? complain(err, "%s", options->dir) : report_show(report, options);
	if (report->samples.tables)
		trail_complain_names(&report->images);
	if (report->reader && damage_complain(report->reader, options->dir) != CLI_FINE &&
	    status == CLI_FINE)
		status = CLI_FAILED;
	return status;
}

int cmd_report(int argc, char **argv)
{
	struct report_options options;
	struct report report = { 0 };
	int status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	report.dir = options.dir;
	if (options.repair) {
		int streams = trace_repair(options.dir);

		if (streams < 0)
			return complain(streams, "%s", options.dir);
		if (options.format == ROWS_TEXT) /* what fails here fails again below */
			dprintf(STDOUT_FILENO, "Repaired     %d streams\n", streams);
	}
	status = report_make(&report, &options);
	report_release(&report);
	return status;
}
