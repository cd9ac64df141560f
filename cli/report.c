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
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static const char usage[] =
	"Usage: waymark report [OPTION]... DIR\n"
	"       waymark report [OPTION]... BEFORE AFTER\n"
	"Sum up the trace in DIR: what was recorded, how often, what was lost, how long spans\n"
	"took, and where threads were when samples were taken. Of two traces, print which spans\n"
	"got slower or faster, and which events more or less frequent.\n"
	"\n"
	"Only a part of it:\n"
	"  --spans     spans and functions: calls, total, self, mean, quantiles\n"
	"  --by FIELD[,FIELD]  spans by the values of these fields; also thread, comm, tid, pid\n"
	"  --callers NAME  what called a function, in spans and samples, and the spans that it\n"
	"              called; may be a glob\n"
	"  --slowest N  the N slowest spans, with their fields\n"
	"  --waits     what threads waited for, and who called (record --waits); for how long they\n"
	"              were off their CPUs, by stack and by waker (record -e switch/callchain/)\n"
	"  --functions, --lines, --threads\n"
	"              the samples (record -e sample:cpu-clock/callchain/): which functions,\n"
	"              lines of source or threads they are in\n"
	"  --sums      sums in place of events (record -e 'func:malloc/sum=arg1,by=caller/')\n"
	"  --every TIME  the same, for each interval; of 1s at least\n"
	"  --locks     who held a mutex while others waited (record --locks)\n"
	"\n"
	"  --sort COLUMN  the table of spans by this column: self, p99, calls (default total)\n"
	"  -n, --top N  N rows of each table of spans and samples (default 20; 0: all)\n"
	"  --event NAME  only spans, samples and sums of this name; may be a glob\n"
	"  --tid T     only spans, samples and sums of this thread\n"
	"  --pid P     only spans, samples and sums of this process\n"
	"  --min TIME  only spans that took so long, as 3ms\n"
	"  --root DIR  find the program's files below DIR, as they were on another machine\n"
	"  --no-parameters  name functions without parameters: f, and not f(int)\n"
	"  --json      as one JSON object\n"
	"  --csv       as CSV, one table after another\n"
	"  --repair    first cut torn packets off, so that every CTF reader can read the trace;\n"
	"              what is cut off is kept in hidden files beside the streams\n"
	"  -h, --help  this\n"
	"\n"
	"Quantiles of spans are off by 1 in 32 at most; min and max are exact.\n";

#define TOP_DEFAULT 20
#define SUMS_EVERY_NS 1000000000 /* once a second rows are written */
#define SLOWEST_MAX 100000	 /* they are kept in memory */

struct report_options {
	const char *dir;
	enum rows_format format;
	int repair;
	unsigned int views; /* of enum report_view; 0: all */
	unsigned int span_sort;
	char by[256]; /* what spans.by points into */
	struct span_wish spans;
	struct sums_wish sums;
	int is_of_locks;
	struct report_samples_options samples;
	struct image_options image;
};

static int take_view(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct report_options *options = data;

	(void)name;
	options->samples.by = (enum samples_by)option->min;
	options->samples.callee = options->spans.edges = text;
	options->samples.samples.wants_trails = options->samples.by == SAMPLES_BY_CALLER;
	options->views |= VIEW_SAMPLES | (text ? VIEW_CALLS : 0);
	return CLI_FINE;
}

static int take_part(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	(void)text, (void)name;
	((struct report_options *)data)->views |= (unsigned int)option->min;
	return CLI_FINE;
}

static int take_slowest(void *data, const struct command_option *option, const char *text,
			const char *name)
{
	struct report_options *options = data;

	(void)option;
	options->views |= VIEW_SLOWEST;
	return command_line_number(name, "--slowest", text, 1, SLOWEST_MAX,
				   &options->spans.slowest);
}

static int take_by(void *data, const struct command_option *option, const char *text,
		   const char *name)
{
	struct report_options *options = data;
	char *save = NULL;

	(void)option;
	options->views |= VIEW_SPANS;
	options->spans.by_count = 0;
	snprintf(options->by, sizeof(options->by), "%s", text);
	for (char *field = strtok_r(options->by, ",", &save); field;
	     field = strtok_r(NULL, ",", &save)) {
		if (options->spans.by_count == SPAN_BY_MAX)
			return complain_usage(name, "--by takes %d fields at most", SPAN_BY_MAX);
		options->spans.by[options->spans.by_count++] = field;
	}
	return options->spans.by_count ? CLI_FINE : complain_usage(name, "--by needs a field");
}

static int take_sort(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	const char *columns[ROW_COLUMNS_MAX];
	int column = rows_column(&report_span_table, text);

	(void)option;
	if (column < 0) {
		for (unsigned int i = 0; i < report_span_table.count; i++)
			columns[i] = report_span_table.columns[i].name;
		complain_usage(name, "the table of spans has no column %s", text);
		complain_meant(text, columns, report_span_table.count);
		return CLI_USAGE;
	}
	((struct report_options *)data)->span_sort = (unsigned int)column;
	return CLI_FINE;
}

#define VIEW(word, kind)                                                                           \
	{                                                                                          \
		word, 0, COMMAND_CALL, .min = kind, .take = take_view, .has_no_value = 1           \
	}

static const struct command_option table[] = {
	{ "spans", 0, COMMAND_CALL, .min = VIEW_SPANS, .take = take_part, .has_no_value = 1 },
	{ "waits", 0, COMMAND_CALL, .min = VIEW_WAITS, .take = take_part, .has_no_value = 1 },
	{ "sums", 0, COMMAND_CALL, .min = VIEW_SUMS, .take = take_part, .has_no_value = 1 },
	{ "every", 0, COMMAND_TIME, COMMAND_TO(report_options, sums.every_ns),
	  .min = SUMS_EVERY_NS },
	{ "by", 0, COMMAND_CALL, .take = take_by },
	{ "slowest", 0, COMMAND_CALL, .take = take_slowest },
	{ "callers", 0, COMMAND_CALL, .min = SAMPLES_BY_CALLER, .take = take_view },
	{ "locks", 0, COMMAND_FLAG, COMMAND_TO(report_options, is_of_locks), .min = 1 },
	VIEW("functions", SAMPLES_BY_FUNCTION),
	VIEW("lines", SAMPLES_BY_LINE),
	VIEW("threads", SAMPLES_BY_THREAD),
	{ "sort", 0, COMMAND_CALL, .take = take_sort },
	{ "top", 'n', COMMAND_NUMBER, COMMAND_TO(report_options, samples.top), .max = INT64_MAX },
	{ "event", 0, COMMAND_TEXT, COMMAND_TO(report_options, samples.samples.event) },
	{ "tid", 0, COMMAND_ID, COMMAND_TO(report_options, samples.samples.tid) },
	{ "pid", 0, COMMAND_ID, COMMAND_TO(report_options, samples.samples.pid) },
	{ "min", 0, COMMAND_TIME, COMMAND_TO(report_options, spans.min_ns) },
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
	struct span_wish *spans = &options->spans;
	int status, is_filtered, is_of_two;

	*options = (struct report_options){ .samples = { .top = TOP_DEFAULT } };
	options->image.with_parameters = 1;
	options->samples.samples.beat = pulse_beat;
	options->span_sort = (unsigned int)rows_column(&report_span_table, "total");
	status = command_line_read(&line, argc, argv, options);
	options->views |= options->sums.every_ns ? VIEW_SUMS : 0;
	spans->name = options->samples.samples.event;
	spans->pid = options->samples.samples.pid;
	spans->tid = options->samples.samples.tid;
	options->sums.event = spans->name;
	options->sums.pid = spans->pid;
	options->sums.tid = spans->tid;
	is_filtered = spans->name || spans->pid || spans->tid || spans->min_ns;
	is_of_two = status < 0 && optind == argc - 2 && !options->views && !options->is_of_locks &&
		    !options->repair;
	if (status < 0 && (is_of_two || options->is_of_locks) && (options->views || is_filtered))
		return complain_usage("report", "--locks and two traces have all: they take no "
						"part, and no --event, --tid, --pid or --min");
	/* what has no thread or name of its own is not a part of what was asked for */
	if (is_filtered && !options->views)
		options->views = VIEW_SPANS | VIEW_SAMPLES | VIEW_SUMS;
	spans->has_groups = options->views & VIEW_SPANS && (spans->by_count || is_filtered);
	if (is_of_two)
		return report_compare(argv + optind, options->format, options->samples.top);
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

/* The parts that were asked for and are absent. NULL: one is there. */
static const char *missing(const struct report *report, const struct report_options *options)
{
	if (!options->views || report_spans_are_there(report, options->views) ||
	    (options->views & VIEW_WAITS &&
	     (report->threads.waits.count || report->wait_calls.calls.reading)) ||
	    (options->views & VIEW_SUMS && report->sums.sums.count) ||
	    (options->views & VIEW_SAMPLES && report->samples.samples.sum_count))
		return NULL;
	return options->views == VIEW_SUMS	  ? "sums"
	       : options->views & VIEW_WAITS	  ? "calls that wait (record --waits), or switches"
	       : !(options->views & VIEW_SAMPLES) ? "spans"
	       : options->views & VIEW_SPANS
		       ? (options->views & VIEW_SUMS ? "spans, samples or sums"
						     : "spans or samples")
	       : options->views & VIEW_CALLS
		       ? "samples or calls of that function (of bt=: with --event)"
		       : "samples";
}

/* Print it all, or nothing but the views. Returns an exit status. */
static int report_show(const struct report *report, const struct report_options *options)
{
	const struct samples_options *wanted = &options->samples.samples;
	const struct rows_layout layout = { .last = report->top, .more = "--top 0 shows all" };
	const char *none = missing(report, options);
	struct rows *rows;
	int err = 0;

	if (none && !options->is_of_locks)
		return complain(-WM_E_NOT_RECORDED, "%s%s: %s", none,
				wanted->event || wanted->pid || wanted->tid
					? " of that event, process or thread"
				: options->spans.min_ns ? " of that length"
							: "",
				options->dir);
	rows = output_rows(options->format);
	if (options->is_of_locks) {
		report_locks_print(&report->locks, options->samples.top, rows);
		return output_rows_end(CLI_FINE);
	}
	if (!options->views)
		report_print(report, rows);
	report_spans_view(rows, report, options->views);
	if (options->views & VIEW_WAITS) {
		report_wait_calls_print(rows, report, &layout);
		report_waits_print(rows, report, &layout);
	}
	if (report->sums.sums.reader)
		err = report_sums_print(&report->sums, report->top, rows);
	if (options->views & VIEW_SAMPLES)
		report_samples_print(&report->samples, rows);
	return output_rows_end(err ? complain(err, "%s", options->dir) : CLI_FINE);
}

/* One pass for what is in the order of time: threads, hits, samples. */
static int report_observe(struct report *report)
{
	struct pass_observer *observers[5];
	unsigned int count = 0;
	int err;

	if (report->threads.switches.reading)
		observers[count++] = &report->threads.switches.observer;
	if (report->watches.writers)
		observers[count++] = &report->watches.observer;
	if (report->samples.samples.reading)
		observers[count++] = &report->samples.samples.observer;
	if (report->sums.sums.class_count)
		observers[count++] = &report->sums.sums.observer;
	if (report->wait_calls.calls.reading)
		observers[count++] = &report->wait_calls.calls.observer;
	err = count ? pass_read(report->reader, observers, count) : 0;
	if (!err && report->threads.switches.reading)
		err = report_threads_finish(&report->threads);
	if (!err && report->samples.samples.reading)
		err = report_samples_finish(&report->samples);
	if (!err && report->wait_calls.calls.reading)
		err = wait_calls_finish(&report->wait_calls.calls);
	return err;
}

/* Whether spans have the fields that --by names. Returns an exit status. */
static int report_fields_check(struct trace_reader *reader, const struct span_wish *wish)
{
	for (unsigned int k = 0; k < wish->by_count; k++)
		if (!span_calls_has(reader, wish->by[k]))
			return complain(-WM_E_NOT_RECORDED, "spans with a field %s", wish->by[k]);
	return CLI_FINE;
}

static int report_read(struct report *report, const struct report_options *options)
{
	struct trace_reader *reader = report->reader;
	struct span_calls *calls = options->spans.has_groups ||
						   options->views & (VIEW_CALLS | VIEW_SLOWEST)
					   ? &report->calls
					   : NULL;
	int wants_all = !options->views,
	    err = images_open(&report->images, reader, &options->image);
	int wants_spans = wants_all ||
			  options->views & (VIEW_SPANS | VIEW_CALLS | VIEW_SLOWEST | VIEW_WAITS);
	int wants_sums = wants_all || options->views & VIEW_SUMS;

	if (!err && options->is_of_locks)
		return report_locks_read(&report->locks, &report->images);
	if (!err && wants_spans)
		err = summary_make_calls(&report->summary, reader, calls);
	if (!err && wants_all)
		err = report_trails(&report->trails, reader);
	reader->is_noted = wants_spans != 0;
	if (!err && (wants_spans || wants_sums))
		err = watch_wheres_read(&report->wheres, &report->images);
	report->sums.wheres = report->wheres;
	if (!err && wants_sums)
		err = sums_open(&report->sums.sums, reader, &options->sums);
	if (!err && wants_all)
		err = report_watches(&report->watches, reader, report->wheres);
	if (!err && wants_spans && (!calls || options->views & (VIEW_WAITS | VIEW_SLOWEST)))
		err = report_threads(&report->threads, &report->images, report->summary,
				     report->wheres);
	if (!err && (wants_all || options->views & VIEW_SAMPLES))
		err = report_samples(&report->samples, &report->images, &options->samples);
	if (!err && (wants_all || options->views & (VIEW_WAITS | VIEW_SLOWEST)))
		err = report_wait_calls(&report->wait_calls, &report->images);
	if (!err && options->views & VIEW_SLOWEST)
		err = report_slow(report);
	return err ? err : report_observe(report);
}

/* A part of a report has no line of losses. A flight recorder overwrites what is old. */
static void losses_complain(const struct trace_reader *reader, const char *dir)
{
	uint64_t events, packets;

	reader_losses(reader, &events, &packets);
	if ((events || packets) &&
	    !(reader->meta.in_memory && !strcmp(reader->meta.in_memory, "events")))
		complain_words(
			"waymark: %s: %llu events lost, %llu packets missing: counts and times are too low\n",
			dir, (unsigned long long)events, (unsigned long long)packets);
}

static void report_release(struct report *report)
{
	report_locks_release(&report->locks);
	report_wait_calls_release(&report->wait_calls);
	if (report->sums.sums.reader)
		sums_release(&report->sums.sums);
	report_samples_release(&report->samples);
	report_threads_release(&report->threads);
	report_watches_release(&report->watches);
	watch_wheres_free(report->wheres);
	images_close(&report->images);
	report_slow_release(report);
	span_calls_release(&report->calls);
	summary_free(report->summary);
	trace_reader_close(report->reader);
}

/* Read and print. Returns an exit status. */
static int report_make(struct report *report, const struct report_options *options)
{
	int err = trace_reader_open(&report->reader, options->dir), status;

	if (!err && report_fields_check(report->reader, &options->spans))
		return CLI_FAILED;
	if (!err)
		err = report_read(report, options);
	if (err == -WM_E_NOT_RECORDED && options->is_of_locks)
		status = complain(err, "calls that lock a mutex (record --locks): %s",
				  options->dir);
	else
		status = err ? complain(err, "%s", options->dir) : report_show(report, options);
	if (!err && (options->views || options->is_of_locks))
		losses_complain(report->reader, options->dir);
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
	report.top = options.samples.top;
	report.threads.pid = options.samples.samples.pid;
	report.threads.tid = options.samples.samples.tid;
	report.span_sort = options.span_sort;
	report.calls.wish = options.spans;
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
