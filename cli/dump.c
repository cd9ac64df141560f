/* SPDX-License-Identifier: MIT */
/*
 * waymark dump: a trace's events in order of time, as text or JSON.
 */
#include "cli/cli.h"
#include "base/name_match.h"
#include "cli/call_lines.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "cli/sorted_events.h"
#include "cli/watch_where.h"
#include "read/pass/format.h"
#include "record/perf/cpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dump_options {
	const char *dir;
	int json;
	enum { SPANS_OF_CALLS, SPANS_ALL, SPANS_NONE } spans; /* that are one line */
	const char *event;				      /* glob; NULL for all */
	uint64_t limit;					      /* UINT64_MAX for none */
	uint32_t tid, pid;				      /* 0 for all */
	uint64_t from_ns, to_ns;			      /* since the trace's begin */
	enum event_order order;
	unsigned int *cpus; /* only of these; NULL for all */
	size_t cpu_count;
};

static const char usage[] =
	"Usage: waymark dump [OPTION]... DIR\n"
	"Print the events of the trace in DIR in order of time:\n"
	"  [HH:MM:SS.nnnnnnnnn] (+delta) comm-TID PID SUBSYS:EVENT: { field = value, ... }\n"
	"\n"
	"  --json          one JSON object a line\n"
	"  --spans         begin and end in one line also of markers' spans\n"
	"  --no-spans      in two lines also of function calls\n"
	"  --event GLOB    only events whose name matches, as 'db:*'\n"
	"  --limit N       stop after N events\n"
	"  --tid T         only this thread\n"
	"  --pid P         only this process\n"
	"  --cpu LIST      only what the kernel recorded on these CPUs, as 0-3,8\n"
	"  --order WHAT    by time (default); by cpu or thread, and each one's by time\n"
	"  --from SECONDS  from this time on, counted from the trace's begin\n"
	"  --to SECONDS    up to this time\n"
	"  -h, --help      this\n"
	"\n"
	"Under a hit of a watch, or one with callers, are functions and lines, the innermost first;\n"
	"with --json in \"frame\". A string that was NULL is NULL; one that was cut at 4 KiB ends in \"...\".\n"
	"Events that were lost have a line where they are missing. Events that the kernel\n"
	"recorded have their CPU before the name, as [3]; the thread is the one that they are\n"
	"about.\n";

static int take_cpus(void *data, const struct command_option *option, const char *text,
		     const char *name)
{
	struct dump_options *options = data;

	free(options->cpus);
	if (!cpus_parse(text, &options->cpus, &options->cpu_count))
		return 0;
	return complain_usage(name, "--%s takes numbers, such as 0-3,8, not %s", option->name,
			      text);
}

/* By enum event_order. */
static const char *const orders[] = { "time", "cpu", "thread", NULL };

static const struct command_option table[] = {
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(dump_options, json), .min = 1 },
	{ "spans", 0, COMMAND_FLAG, COMMAND_TO(dump_options, spans), .min = SPANS_ALL },
	{ "no-spans", 0, COMMAND_FLAG, COMMAND_TO(dump_options, spans), .min = SPANS_NONE },
	{ "event", 0, COMMAND_TEXT, COMMAND_TO(dump_options, event) },
	{ "limit", 0, COMMAND_NUMBER, COMMAND_TO(dump_options, limit), .max = UINT64_MAX },
	{ "tid", 0, COMMAND_ID, COMMAND_TO(dump_options, tid) },
	{ "pid", 0, COMMAND_ID, COMMAND_TO(dump_options, pid) },
	{ "cpu", 0, COMMAND_CALL, .take = take_cpus },
	{ "order", 0, COMMAND_WORD, COMMAND_TO(dump_options, order), .words = orders },
	{ "from", 0, COMMAND_TIME, COMMAND_TO(dump_options, from_ns) },
	{ "to", 0, COMMAND_TIME, COMMAND_TO(dump_options, to_ns) },
	{ .name = NULL },
};

static const struct command_line line = { "dump", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct dump_options *options, int argc, char **argv)
{
	int status;

	*options = (struct dump_options){ .limit = UINT64_MAX, .to_ns = UINT64_MAX };
	status = command_line_read(&line, argc, argv, options);
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

static int cpu_wanted(const struct dump_options *options, int32_t cpu)
{
	for (size_t i = 0; i < options->cpu_count; i++)
		if (cpu >= 0 && (unsigned int)cpu == options->cpus[i])
			return 1;
	return !options->cpus;
}

static int thread_wanted(const struct dump_options *options, uint32_t pid, uint32_t tid)
{
	return (!options->tid || tid == options->tid) && (!options->pid || pid == options->pid);
}

/* Events of a CPU are about many threads. */
static int stream_wanted(const struct trace_stream *stream, void *data)
{
	const struct dump_options *options = data;

	return cpu_wanted(options, stream->cpu) &&
	       (stream->is_of_cpu || thread_wanted(options, stream->pid, stream->tid));
}

#define WANTED 1
#define WITH_FRAMES 2
#define OF_CALL 4

/* Whether begin and end of the span are one line: both are wanted. */
static int is_of_call(const struct trace_class *class, const struct dump_options *options)
{
	const char *other = class->kind == 'b' ? "end" : "begin", *colon;
	char name[1024];

	if (options->json || options->spans == SPANS_NONE ||
	    (class->kind != 'b' && class->kind != 'e') ||
	    (options->spans == SPANS_OF_CALLS && class->way != 'd'))
		return 0;
	colon = strrchr(class->name, ':');
	return !options->event ||
	       (snprintf(name, sizeof(name), "%.*s:%s", (int)(colon - class->name), class->name,
			 other) < (int)sizeof(name) &&
		name_match(options->event, name));
}

static uint8_t frames_of(const struct trace_class *class)
{
	return watch_backtrace_has(class) || watch_callchain_has(class) ? WITH_FRAMES : 0;
}

static uint8_t class_flags(const struct trace_class *class, const struct dump_options *options)
{
	if (options->event && !name_match(options->event, class->name))
		return 0;
	return (uint8_t)(WANTED | frames_of(class) | (is_of_call(class, options) ? OF_CALL : 0));
}

/* Flags of each event class, as WANTED: for each process, by class index. NULL: out of memory. */
static uint8_t **match_classes(const struct trace_reader *reader,
			       const struct dump_options *options)
{
	uint32_t count = reader->meta.process_count;
	uint8_t **wanted = calloc(count + 1u, sizeof(*wanted));

	for (uint32_t i = 0; wanted && i < count; i++) {
		const struct trace_schema *schema = reader->meta.processes[i].schema;

		if (!schema)
			continue;
		wanted[i] = calloc(schema->count + 1u, 1);
		for (uint32_t j = 0; wanted[i] && j < schema->count; j++)
			wanted[i][j] = class_flags(schema->classes[j], options);
		if (!wanted[i])
			return NULL; /* the command ends; so does its memory */
	}
	return wanted;
}

/* ---- hits of watches ---- */

static void put_frame(const char *text, void *data)
{
	out_literal(data, "    ");
	out_text(data, text, strlen(text));
	out_char(data, '\n');
}

static void put_frames(struct out *out, const struct merge_event *event,
		       struct watch_wheres *wheres)
{
	struct where_backtrace backtrace;
	int err = watch_backtrace_read(wheres, event, &backtrace);

	if (err)
		out->error = err;
	else
		watch_backtrace_lines(&backtrace, put_frame, out);
}

static void put_frames_json(struct out *out, const struct merge_event *event, void *data)
{
	struct rows rows = { .out = out, .format = ROWS_JSON, .follows = 1 };
	struct where_backtrace backtrace;
	int err = watch_backtrace_read(data, event, &backtrace);

	if (err) {
		out->error = err;
		return;
	}
	rows_open(&rows, &frame_table, NULL);
	watch_frames_put(&backtrace, row_null(), &rows);
	rows_close(&rows);
}

/* ---- all ---- */

/* Where the events come from, and which of them are wanted. */
struct events {
	const struct dump_options *options;
	struct merge *merge;
	uint64_t to_ns;
	uint8_t **wanted; /* of match_classes() */
	struct sorted_events sorted;
};

static int flags_of(const struct events *events, const struct merge_event *event)
{
	if (!event->class)
		return WANTED;
	if (!thread_wanted(events->options, event->pid, event->tid))
		return 0;
	return events->wanted[event->stream->process][event->class->index];
}

/* The next event that is wanted, in order of time. 1, 0 after the last, or a negative error. */
static int next_by_time(struct events *events, struct merge_event *event)
{
	int got;

	while ((got = merge_next(events->merge, event)) > 0) {
		if (event->ns > events->to_ns)
			return 0;
		if (flags_of(events, event))
			return 1;
		if (event->lost || event->missing_packets) {
			event->class = NULL; /* what was lost may have been wanted */
			return 1;
		}
	}
	return got;
}

static int sort_events(struct events *events)
{
	struct merge_event event;
	int err;

	while ((err = next_by_time(events, &event)) > 0) {
		err = sorted_events_add(&events->sorted, &event, events->options->order);
		if (err)
			return err;
	}
	sorted_events_sort(&events->sorted);
	return err;
}

static int next_event(struct events *events, struct merge_event *event)
{
	return events->options->order == ORDER_TIME ? next_by_time(events, event)
						    : sorted_events_next(&events->sorted, event);
}

/* What print_events() prints with. */
struct printer {
	const struct events *events;
	struct format *format;
	struct watch_wheres *wheres;
	struct call_lines calls;
	struct out out;
};

static void print_event(struct printer *printer, const struct merge_event *event)
{
	struct format *format = printer->format;
	int is = flags_of(printer->events, event);

	format->put_members = is & WITH_FRAMES ? put_frames_json : NULL;
	if (printer->events->options->json)
		format_json(format, &printer->out, event);
	else
		format_text(format, &printer->out, event);
	if (!printer->events->options->json && is & WITH_FRAMES)
		put_frames(&printer->out, event, printer->wheres);
}

static void print_lines(struct printer *printer, int is_last)
{
	struct call_line next;

	while (call_lines_next(&printer->calls, is_last, &next)) {
		if (next.kind == LINE_CALL)
			format_call(printer->format, &printer->out, next.event, next.end);
		else if (next.kind == LINE_RETURN)
			format_return(printer->format, &printer->out, next.event, next.begin_ns);
		else
			print_event(printer, next.event);
	}
}

/* Print an event, or keep it until the calls before it have ended. 0 or -ENOMEM. */
static int take_event(struct printer *printer, const struct merge_event *event)
{
	int is_call = (flags_of(printer->events, event) & OF_CALL) && event->class, err;

	if (!is_call && call_lines_is_empty(&printer->calls)) {
		print_event(printer, event);
		return 0;
	}
	if (pass_is_gap(event))
		call_lines_forget(&printer->calls, event->pid, event->tid);
	err = call_lines_add(&printer->calls, event, is_call);
	if (!err)
		print_lines(printer, 0);
	return err;
}

static int print_events(struct events *events, struct format *format, struct watch_wheres *wheres)
{
	static struct printer printer;
	struct merge_event event;
	uint64_t left = events->options->limit;
	int err = 0;

	printer.events = events;
	printer.format = format;
	printer.wheres = wheres;
	out_init(&printer.out, STDOUT_FILENO);
	format->data = wheres;
	while (left && !printer.out.error && (err = next_event(events, &event)) > 0) {
		left -= event.class != NULL;
		err = take_event(&printer, &event);
		if (err)
			break;
	}
	print_lines(&printer, 1);
	call_lines_release(&printer.calls);
	out_flush(&printer.out);
	return err < 0 ? err : printer.out.error;
}

static int dump_events(const struct dump_options *options, struct merge *merge,
		       struct trace_reader *reader, uint64_t to_ns, struct watch_wheres *wheres)
{
	struct events events = { .options = options, .merge = merge, .to_ns = to_ns };
	struct format format;
	int err;

	events.wanted = match_classes(reader, options);
	err = events.wanted ? format_init(&format, reader) : -ENOMEM;
	if (err)
		return err;
	if (options->order != ORDER_TIME)
		err = sort_events(&events);
	if (!err)
		err = print_events(&events, &format, wheres);
	format_release(&format);
	sorted_events_release(&events.sorted);
	for (uint32_t i = 0; i < reader->meta.process_count; i++)
		free(events.wanted[i]);
	free(events.wanted);
	return err;
}

int cmd_dump(int argc, char **argv)
{
	struct dump_options options;
	struct trace_reader *reader;
	struct watch_wheres *wheres = NULL;
	struct images images = { 0 };
	struct merge *merge;
	uint64_t begin, to_ns;
	int err, status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	err = trace_reader_open(&reader, options.dir);
	if (err)
		return complain(err, "%s", options.dir);
	begin = reader_begin_ns(reader);
	to_ns = options.to_ns > UINT64_MAX - begin ? UINT64_MAX : begin + options.to_ns;
	err = merge_open(&merge, reader, options.from_ns ? begin + options.from_ns : 0,
			 stream_wanted, &options);
	if (!err)
		err = images_open(&images, reader, NULL);
	if (!err)
		err = watch_wheres_read(&wheres, &images);
	if (!err)
		err = dump_events(&options, merge, reader, to_ns, wheres);
	watch_wheres_free(wheres);
	images_close(&images);
	merge_close(merge);
	status = err ? complain(err, "%s", options.dir) : damage_complain(reader, options.dir);
	trace_reader_close(reader);
	free(options.cpus);
	return status;
}
