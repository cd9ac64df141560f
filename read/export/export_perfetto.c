/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"

#include "base/array.h"
#include "base/slots.h"
#include "read/pass/format.h"
#include "read/pass/summary.h"
#include "trace/trail/event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* CPUs are the threads of a process that no process can be: ids end below 2^22. */
#define CPUS_ID (1u << 22)
#define OPEN_MAX 4096u /* in a thread; more are forgotten, the oldest first */

/*
 * Which spans can be slices of their thread's track: readers of such a track take an end for that
 * of the innermost slice. Spans may cross, and may never end: then those that begin within another
 * one and end behind it, or not at all, need a track of their own.
 *
 * The trace is walked twice: the first time shows which these are.
 */

struct open_slice {
	const struct trace_class *class; /* of the begin */
	uint64_t number;
};

struct slice_thread {
	uint32_t pid, tid;
	struct open_slice *open; /* the innermost is last */
	size_t count, room;
};

struct slices {
	struct slice_thread *threads;
	size_t count, room;
	struct slots slots; /* of the threads */
	uint64_t begun;
	uint8_t *apart; /* a bit for each span, by number */
	size_t apart_room;
};

/* The first walk is over. */
static void slices_rewind(struct slices *slices)
{
	for (size_t i = 0; i < slices->count; i++)
		slices->threads[i].count = 0;
	slices->begun = 0;
}

static void slices_release(struct slices *slices)
{
	for (size_t i = 0; i < slices->count; i++)
		free(slices->threads[i].open);
	free(slices->threads);
	free(slices->slots.all);
	free(slices->apart);
}

/* NULL: no memory. */
static struct slice_thread *thread_of(struct slices *slices, const struct merge_event *event)
{
	uint32_t hash = slots_hash((uint64_t)event->pid << 32 | event->tid), number;

	if (slots_fit(&slices->slots) || array_grow(&slices->threads, &slices->room,
						    slices->count + 1, sizeof(*slices->threads)))
		return NULL;
	for (uint64_t at = hash; slots_next(&slices->slots, hash, &at, &number);)
		if (slices->threads[number].pid == event->pid &&
		    slices->threads[number].tid == event->tid)
			return &slices->threads[number];
	slots_add(&slices->slots, hash, (uint32_t)slices->count);
	slices->threads[slices->count] = (struct slice_thread){ .pid = event->pid,
								.tid = event->tid };
	return &slices->threads[slices->count++];
}

static int is_apart(const struct slices *slices, uint64_t number)
{
	return number / 8 < slices->apart_room && slices->apart[number / 8] >> number % 8 & 1;
}

static int apart_set(struct slices *slices, uint64_t number)
{
	size_t before = slices->apart_room;

	if (array_grow(&slices->apart, &slices->apart_room, number / 8 + 1, 1))
		return -ENOMEM;
	memset(slices->apart + before, 0, slices->apart_room - before);
	slices->apart[number / 8] |= (uint8_t)(1u << number % 8);
	return 0;
}

static void open_remove(struct slice_thread *thread, size_t place)
{
	memmove(&thread->open[place], &thread->open[place + 1],
		(--thread->count - place) * sizeof(*thread->open));
}

static int slice_begin(struct slices *slices, struct slice_thread *thread,
		       const struct merge_event *event, uint64_t *number)
{
	*number = ++slices->begun;
	if (thread->count == OPEN_MAX) {
		if (apart_set(slices, thread->open[0].number))
			return -ENOMEM;
		open_remove(thread, 0);
	}
	if (array_grow(&thread->open, &thread->room, thread->count + 1, sizeof(*thread->open)))
		return -ENOMEM;
	thread->open[thread->count++] = (struct open_slice){ event->class, *number };
	return 0;
}

static int is_same_span(const struct trace_class *begin, const struct trace_class *end)
{
	size_t bytes = summary_span_bytes(begin);

	return bytes == summary_span_bytes(end) && !memcmp(begin->name, end->name, bytes);
}

/* Those that are open within it continue: they are apart. */
static int slice_end(struct slices *slices, struct slice_thread *thread,
		     const struct merge_event *event, uint64_t *number)
{
	size_t place = thread->count;

	*number = 0;
	while (place && !is_same_span(thread->open[place - 1].class, event->class))
		place--;
	if (!place)
		return 0;
	for (size_t i = place; i < thread->count; i++)
		if (!is_apart(slices, thread->open[i].number) &&
		    apart_set(slices, thread->open[i].number))
			return -ENOMEM;
	*number = thread->open[place - 1].number;
	open_remove(thread, place - 1);
	return 0;
}

/* A begin or end of a span, in either walk: its number, from 1 on; 0: its begin is not known. */
static int slices_take(struct slices *slices, const struct merge_event *event, uint64_t *number)
{
	struct slice_thread *thread = thread_of(slices, event);

	if (!thread)
		return -ENOMEM;
	return (event->class->kind == 'b' ? slice_begin : slice_end)(slices, thread, event, number);
}

/* ---- all of it ---- */

/* A CPU's track. */
struct track {
	int is_running; /* a thread, since `begin_ns` */
	uint64_t begin_ns;
	uint32_t pid, tid;
};

struct json {
	struct out *out;
	int follows; /* the next member has one before it */
};

struct perfetto {
	struct json json;
	const struct trace_reader *reader;
	struct format format;
	struct track *tracks; /* beside the reader's streams */
	struct slices slices;
	uint64_t base_ns, last_ns;
	uint32_t tid, pid; /* 0: all */
};

/* ---- JSON: Perfetto's, and so none of rows ---- */

/* A comma where a value came before, and the key. */
static void json_begin(struct json *json, const char *key)
{
	if (json->follows)
		out_char(json->out, ',');
	json->follows = 1;
	if (!key)
		return;
	out_char(json->out, '"');
	out_text(json->out, key, strlen(key));
	out_literal(json->out, "\":");
}

/* An object or an array, '{' or '['; its key is NULL in an array. */
static void json_open(struct json *json, const char *key, char bracket)
{
	json_begin(json, key);
	out_char(json->out, bracket);
	json->follows = 0;
}

static void json_close(struct json *json, char bracket)
{
	out_char(json->out, bracket);
	json->follows = 1;
}

/* The next event has a line of its own. */
static void json_line(struct json *json)
{
	if (json->follows)
		out_char(json->out, ',');
	out_char(json->out, '\n');
	json->follows = 0;
}

static void json_string(struct json *json, const char *key, const char *value)
{
	json_begin(json, key);
	out_char(json->out, '"');
	out_json(json->out, value, strlen(value));
	out_char(json->out, '"');
}

static void json_number(struct json *json, const char *key, uint64_t value)
{
	json_begin(json, key);
	out_u64(json->out, value);
}

/* ---- events ---- */

static int is_wanted(const struct perfetto *perfetto, uint32_t pid, uint32_t tid)
{
	return (!perfetto->tid || tid == perfetto->tid) && (!perfetto->pid || pid == perfetto->pid);
}

/* Microseconds since the trace's begin, exactly. */
static void put_us(struct perfetto *perfetto, const char *key, uint64_t ns)
{
	char text[64];

	snprintf(text, sizeof(text), ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
		 (unsigned int)(ns % 1000));
	out_text(perfetto->json.out, text, strlen(text));
}

/* Begin an event: its phase, its track, its name. */
static void begin(struct perfetto *perfetto, const char *phase, uint32_t pid, uint32_t tid)
{
	json_line(&perfetto->json);
	json_open(&perfetto->json, NULL, '{');
	json_string(&perfetto->json, "ph", phase);
	json_number(&perfetto->json, "pid", pid);
	json_number(&perfetto->json, "tid", tid);
}

/* ---- names of tracks ---- */

static void put_name(struct perfetto *perfetto, const char *what, uint32_t pid, uint32_t tid,
		     const char *name)
{
	begin(perfetto, "M", pid, tid);
	json_string(&perfetto->json, "name", what);
	json_open(&perfetto->json, "args", '{');
	json_string(&perfetto->json, "name", name);
	json_close(&perfetto->json, '}');
	json_close(&perfetto->json, '}');
}

static void put_names(struct perfetto *perfetto)
{
	const struct trace_reader *reader = perfetto->reader;
	const struct thread_names *names = &perfetto->format.names;

	for (uint32_t i = 0; i < reader->meta.process_count; i++) {
		const struct fact_process *process = &reader->meta.processes[i];

		if (process->is_kernel)
			put_name(perfetto, "process_name", CPUS_ID, CPUS_ID, "CPUs");
		else if (is_wanted(perfetto, process->pid, perfetto->tid))
			put_name(perfetto, "process_name", process->pid, process->pid,
				 process->exe ? process->exe : "?");
	}
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		const struct trace_stream *stream = &reader->streams[i];

		if (!stream->packets)
			continue;
		if (stream->cpu >= 0)
			put_name(perfetto, "thread_name", CPUS_ID, CPUS_ID + (uint32_t)stream->cpu,
				 stream->comm);
	}
	for (size_t i = 0; i < names->count; i++) {
		const struct thread_name *name = &names->all[i];

		if (i + 1 < names->count && name[1].pid == name->pid && name[1].tid == name->tid)
			continue; /* the last one is shown */
		if (is_wanted(perfetto, name->pid, name->tid))
			put_name(perfetto, "thread_name", name->pid, name->tid, name->comm);
	}
}

/* ---- which thread ran ---- */

static void put_slice(struct perfetto *perfetto, const struct merge_event *at,
		      const struct track *track)
{
	struct merge_event about = *at;
	const char *comm;
	char name[64];

	about.pid = track->pid;
	about.tid = track->tid;
	comm = format_comm(&perfetto->format, &about);
	snprintf(name, sizeof(name), "%s%s%u", comm ? comm : "", comm ? "-" : "", track->tid);
	begin(perfetto, "X", CPUS_ID, CPUS_ID + (uint32_t)at->stream->cpu);
	json_string(&perfetto->json, "cat", "sched");
	json_string(&perfetto->json, "name", name);
	put_us(perfetto, "ts", track->begin_ns - perfetto->base_ns);
	put_us(perfetto, "dur", at->ns - track->begin_ns);
	json_open(&perfetto->json, "args", '{');
	json_number(&perfetto->json, "pid", track->pid);
	json_number(&perfetto->json, "tid", track->tid);
	json_close(&perfetto->json, '}');
	json_close(&perfetto->json, '}');
}

/* 1 if the event is shown as an end or begin of a slice. */
static int take_switch(struct perfetto *perfetto, const struct merge_event *event)
{
	struct track *track = &perfetto->tracks[event->stream - perfetto->reader->streams];
	int is_arrival = !strcmp(event->class->name, "switch:arrive");

	if (event->stream->cpu < 0 || (!is_arrival && strcmp(event->class->name, "switch:depart")))
		return 0;
	if (track->is_running && !is_arrival && track->pid == event->pid &&
	    track->tid == event->tid && is_wanted(perfetto, event->pid, event->tid))
		put_slice(perfetto, event, track);
	*track = (struct track){ .is_running = is_arrival,
				 .begin_ns = event->ns,
				 .pid = event->pid,
				 .tid = event->tid };
	return 1;
}

/* The threads that ran up to the end. */
static void end_tracks(struct perfetto *perfetto)
{
	for (uint32_t i = 0; i < perfetto->reader->stream_count; i++) {
		const struct track *track = &perfetto->tracks[i];
		struct merge_event end = { .stream = &perfetto->reader->streams[i],
					   .ns = perfetto->last_ns };

		if (track->is_running && is_wanted(perfetto, track->pid, track->tid))
			put_slice(perfetto, &end, track);
	}
}

/* ---- events ---- */

static void put_losses(struct perfetto *perfetto, const struct merge_event *event)
{
	const struct trace_stream *stream = event->stream;
	uint32_t number = stream->cpu < 0 ? 0 : (uint32_t)stream->cpu;

	if (stream->is_of_cpu)
		perfetto->tracks[stream - perfetto->reader->streams].is_running = 0;
	begin(perfetto, "i", stream->is_of_cpu ? CPUS_ID : stream->pid,
	      stream->is_of_cpu ? CPUS_ID + number : stream->tid);
	json_string(&perfetto->json, "s", "t");
	json_string(&perfetto->json, "name", "events lost");
	put_us(perfetto, "ts", event->ns - perfetto->base_ns);
	json_open(&perfetto->json, "args", '{');
	json_number(&perfetto->json, "events", event->lost);
	json_number(&perfetto->json, "packets", event->missing_packets);
	json_close(&perfetto->json, '}');
	json_close(&perfetto->json, '}');
}

static int is_span(const struct trace_class *class)
{
	return class->kind == 'b' || class->kind == 'e';
}

/*
 * Begin a span's begin or end: an instant for an end without begin, which would end another slice.
 */
static int begin_span(struct perfetto *perfetto, const struct merge_event *event)
{
	int is_begin = event->class->kind == 'b', has_track;
	uint64_t number;
	int err = slices_take(&perfetto->slices, event, &number);

	if (err)
		return err;
	has_track = is_apart(&perfetto->slices, number);
	begin(perfetto,
	      !number	  ? "i"
	      : has_track ? (is_begin ? "b" : "e")
	      : is_begin  ? "B"
			  : "E",
	      event->pid, event->tid);
	if (!number) {
		json_string(&perfetto->json, "s", "t");
	} else if (has_track) {
		json_string(&perfetto->json, "cat", "span");
		json_number(&perfetto->json, "id", number);
	}
	return 0;
}

static int put_event(struct perfetto *perfetto, const struct merge_event *event)
{
	const struct trace_class *class = event->class;
	struct out *out = perfetto->json.out;
	int err = is_span(class) ? begin_span(perfetto, event) : 0;

	if (err)
		return err;
	if (!is_span(class)) {
		begin(perfetto, "i", event->pid, event->tid);
		json_string(&perfetto->json, "s", "t");
	}
	put_us(perfetto, "ts", event->ns - perfetto->base_ns);
	out_literal(out, ",\"name\":\"");
	/* what is behind a span's name says the phase */
	out_json(out, class->name, is_span(class) ? summary_span_bytes(class) : class->name_bytes);
	out_char(out, '"');
	json_open(&perfetto->json, "args", '{');
	if (event->stream->cpu >= 0) {
		json_number(&perfetto->json, "on_cpu", (uint32_t)event->stream->cpu);
		out_short(out, ",", class->count != 0);
	}
	format_json_fields(out, event);
	json_close(&perfetto->json, '}');
	json_close(&perfetto->json, '}');
	return 0;
}

/* A stream of a thread that is not wanted. CPUs have all threads. */
static int stream_wanted(const struct trace_stream *stream, void *data)
{
	return stream->is_of_cpu || is_wanted(data, stream->pid, stream->tid);
}

/* The trail's own are left out, and no marker of a subsystem that is called so. */
static int is_shown(const struct perfetto *perfetto, const struct merge_event *event)
{
	return event->class && trail_class_of(event->class) < 0 &&
	       is_wanted(perfetto, event->pid, event->tid);
}

/* The first walk: which spans cross. */
static int note_spans(struct perfetto *perfetto, struct trace_reader *reader)
{
	struct merge_event event;
	struct merge *merge;
	uint64_t number;
	int err = merge_open(&merge, reader, 0, stream_wanted, perfetto);

	while (!err && (err = merge_next(merge, &event)) > 0)
		err = is_shown(perfetto, &event) && is_span(event.class)
			      ? slices_take(&perfetto->slices, &event, &number)
			      : 0;
	merge_close(merge);
	slices_rewind(&perfetto->slices);
	return err;
}

static int put_events(struct perfetto *perfetto, struct trace_reader *reader)
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, reader, 0, stream_wanted, perfetto);

	while (!err && !perfetto->json.out->error && (err = merge_next(merge, &event)) > 0) {
		err = 0;
		if (event.ns > perfetto->last_ns)
			perfetto->last_ns = event.ns;
		if (event.lost || event.missing_packets)
			put_losses(perfetto, &event);
		if (event.class && !take_switch(perfetto, &event) && is_shown(perfetto, &event))
			err = put_event(perfetto, &event);
	}
	merge_close(merge);
	return err;
}

int export_perfetto(struct out *out, struct trace_reader *reader, uint32_t tid, uint32_t pid)
{
	struct perfetto perfetto = { .json.out = out, .reader = reader, .tid = tid, .pid = pid };
	int err = format_init(&perfetto.format, reader);

	perfetto.tracks = calloc(reader->stream_count + 1u, sizeof(*perfetto.tracks));
	if (!err && !perfetto.tracks)
		err = -ENOMEM;
	if (!err)
		err = note_spans(&perfetto, reader);
	perfetto.base_ns = reader_begin_ns(reader);
	if (!err) {
		json_open(&perfetto.json, NULL, '{');
		json_string(&perfetto.json, "displayTimeUnit", "ns");
		json_open(&perfetto.json, "traceEvents", '[');
		put_names(&perfetto);
		err = put_events(&perfetto, reader);
		end_tracks(&perfetto);
		json_close(&perfetto.json, ']');
		json_close(&perfetto.json, '}');
		out_char(out, '\n');
	}
	format_release(&perfetto.format);
	slices_release(&perfetto.slices);
	free(perfetto.tracks);
	return err;
}
