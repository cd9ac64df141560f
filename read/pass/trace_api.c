/* SPDX-License-Identifier: MIT */
/* waymark/trace.h: the merge's events, and records of what is missing between them. */
#include "read/pass/merge.h"
#include "trace/number.h"
#include "trace/process_records.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/trace.h>

/* After the last event: what no stream says. */
enum end_stage { END_INDEX, END_DAMAGES, END_LOSSES, END_OVER };

struct wm_trace {
	struct trace_reader *reader;
	struct merge *merge;
	struct number_list numbers;
	struct life_list lives;
	struct merge_event pending; /* its losses are handed out before it */
	int is_pending;
	enum end_stage end;
	int error;
	uint32_t damages_given; /* of the reader's */
	uint64_t last_ns;
	struct wm_event event;
	struct wm_event_field fields[SCHEMA_FIELDS_MAX];
	char detail[512];
};

/* No call is a cancellation point: the readers open files and allocate. */
static void cancel_restore(const int *state)
{
	pthread_setcancelstate(*state, NULL);
}

static int cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

#define UNCANCELLED __attribute__((cleanup(cancel_restore), unused))

static int options_take(struct wm_trace_options *to, const struct wm_trace_options *from)
{
	const unsigned char *bytes = (const unsigned char *)from;

	*to = (struct wm_trace_options){ 0 };
	if (!from)
		return 0;
	if (from->size < sizeof(*to))
		return -EINVAL; /* the first version had all of these */
	for (size_t i = sizeof(*to); i < from->size; i++)
		if (bytes[i])
			return -E2BIG;
	*to = *from;
	return 0;
}

static void schemas_number(struct wm_trace *trace)
{
	const struct facts *meta = &trace->reader->meta;

	for (uint32_t i = 0; i < meta->process_count; i++)
		if (meta->processes[i].schema)
			meta->processes[i].schema->numbers = &trace->numbers;
}

int wm_trace_open(struct wm_trace **trace, const char *dir, const struct wm_trace_options *options)
{
	int state UNCANCELLED = cancel_disable();
	struct wm_trace_options taken;
	struct wm_trace *made;
	uint64_t begin_ns;
	int err;

	if (!trace)
		return -EINVAL;
	*trace = NULL;
	err = dir ? options_take(&taken, options) : -EINVAL;
	if (err)
		return err;
	made = calloc(1, sizeof(*made));
	if (!made)
		return -ENOMEM;
	err = trace_reader_open(&made->reader, dir);
	if (!err)
		err = merge_open(&made->merge, made->reader, taken.from_realtime_ns, NULL, NULL);
	if (!err)
		err = process_life_list_make(&made->lives, made->reader, taken.from_realtime_ns);
	if (err) {
		wm_trace_close(made);
		return err;
	}
	schemas_number(made);
	begin_ns = reader_begin_ns(made->reader);
	made->last_ns = begin_ns == UINT64_MAX ? 0 : begin_ns;
	if (made->lives.count && made->lives.all[0].realtime_ns < begin_ns)
		made->last_ns = made->lives.all[0].realtime_ns;
	if (made->last_ns < taken.from_realtime_ns)
		made->last_ns = taken.from_realtime_ns;
	*trace = made;
	return 0;
}

/* ---- records of what is missing ---- */

static struct wm_event_field field_number(const char *name, uint64_t number)
{
	return (struct wm_event_field){ .name = name, .type = WM_TYPE_U64, .value.u = number };
}

static struct wm_event_field field_string(const char *name, const char *string)
{
	return (struct wm_event_field){ .name = name,
					.type = WM_TYPE_STR,
					.value.run = { string, strlen(string) } };
}

static void record(struct wm_trace *trace, const char *name, char kind, uint32_t field_count)
{
	trace->event = (struct wm_event){
		.size = sizeof(trace->event),
		.name = name,
		.kind = kind,
		.cpu = -1,
		.realtime_ns = trace->last_ns,
		.field_count = field_count,
		.fields = trace->fields,
		.id = number_of_name(&trace->numbers, name),
	};
}

static void record_lost(struct wm_trace *trace, uint64_t events, uint64_t packets)
{
	trace->fields[0] = field_number("events", events);
	trace->fields[1] = field_number("packets", packets);
	record(trace, "waymark:lost", 'l', 2);
}

static void record_damage(struct wm_trace *trace, const struct trace_damage *damage)
{
	trace->fields[0] = field_string("file", damage->file);
	trace->fields[1] = field_number("offset", damage->offset);
	trace->fields[2] = field_number("bytes", damage->bytes);
	trace->fields[3] = field_string("what", damage->what);
	record(trace, "waymark:damage", 'd', 4);
	snprintf(trace->detail, sizeof(trace->detail), "%s, byte %llu: %s", damage->file,
		 (unsigned long long)damage->offset, damage->what);
}

/* A damage that the reader has put down and that has no record yet. */
static int next_damage(struct wm_trace *trace)
{
	if (trace->damages_given == trace->reader->damage_count)
		return 0;
	record_damage(trace, &trace->reader->damages[trace->damages_given++]);
	return 1;
}

/* The packets that the recorder could not write, and the streams that can't be checked. */
static int end_index(struct wm_trace *trace)
{
	struct trace_damage damage = { .file = (char *)".index",
				       .what = reader_end_words(trace->reader) };

	if (!damage.what)
		return 0;
	record_damage(trace, &damage);
	return 1;
}

static int end_damages(struct wm_trace *trace)
{
	uint64_t more = trace->reader->damages_ever - trace->reader->damage_count;
	struct trace_damage damage = { .file = (char *)"", .offset = more };

	damage.what = "more places that could not be read: the offset is their number";
	if (more)
		record_damage(trace, &damage);
	return more != 0;
}

/* Events that were lost and that no stream's packets count, as summary.c has them. */
static int end_losses(struct wm_trace *trace)
{
	const struct trace_reader *reader = trace->reader;
	uint64_t counted = 0, lost;

	for (uint32_t i = 0; i < reader->stream_count; i++)
		counted += reader->streams[i].discarded;
	lost = reader->discarded > counted ? reader->discarded - counted : 0;
	lost += reader->missing_events;
	if (lost)
		record_lost(trace, lost, 0);
	return lost != 0;
}

static int next_of_end(struct wm_trace *trace)
{
	int got = 0;

	while (!got && trace->end < END_OVER) {
		enum end_stage stage = trace->end++;

		got = stage == END_INDEX     ? end_index(trace)
		      : stage == END_DAMAGES ? end_damages(trace)
					     : end_losses(trace);
	}
	return got;
}

/* ---- events ---- */

/* A process's begin comes before its first event, and its end after the last. */
static int next_life(struct wm_trace *trace)
{
	struct life_list *lives = &trace->lives;
	const struct life_record *record = &lives->all[lives->next];

	if (lives->next == lives->count)
		return 0;
	if (trace->is_pending &&
	    (record->realtime_ns > trace->pending.ns ||
	     (record->kind == LIFE_END && record->realtime_ns == trace->pending.ns)))
		return 0;
	lives->next++;
	if (record->realtime_ns > trace->last_ns)
		trace->last_ns = record->realtime_ns;
	process_life_event(&trace->event, trace->fields, record->kind,
			   &trace->reader->meta.processes[record->process], record->realtime_ns,
			   &trace->numbers);
	return 1;
}

static void next_pending(struct wm_trace *trace)
{
	struct merge_event *pending = &trace->pending;
	const struct trace_stream *stream = pending->stream;
	const struct trace_class *class = pending->class;
	int is_loss = pending->lost || pending->missing_packets;

	trace->last_ns = pending->ns;
	if (is_loss) {
		record_lost(trace, pending->lost, pending->missing_packets);
		trace->event.pid = stream->is_of_cpu ? 0 : pending->pid;
		trace->event.tid = stream->is_of_cpu ? 0 : pending->tid;
		trace->event.cpu = stream->cpu;
		pending->lost = pending->missing_packets = 0;
		trace->is_pending = class != NULL;
	} else {
		merge_event_make(pending, &trace->event, trace->fields);
		trace->event.id = schema_number(stream_schema(trace->reader, stream), class);
		trace->is_pending = 0;
	}
}

int wm_trace_next(struct wm_trace *trace, const struct wm_event **event)
{
	int state UNCANCELLED = cancel_disable();
	int got;

	if (event)
		*event = NULL;
	if (!trace || !event)
		return -EINVAL;
	if (trace->error)
		return trace->error;
	trace->detail[0] = '\0';
	if (!trace->is_pending && trace->damages_given == trace->reader->damage_count) {
		got = trace->end == END_INDEX ? merge_next(trace->merge, &trace->pending) : 0;
		if (got < 0) {
			snprintf(trace->detail, sizeof(trace->detail), "reading the next event");
			return trace->error = got;
		}
		trace->is_pending = got;
	}
	/* What the merge has left out on its way stood before the event that it found. */
	got = next_damage(trace);
	if (!got)
		got = next_life(trace);
	if (!got && trace->is_pending) {
		next_pending(trace);
		got = 1;
	}
	if (!got)
		got = next_of_end(trace);
	if (got)
		*event = &trace->event;
	return got;
}

const char *wm_trace_detail(const struct wm_trace *trace)
{
	return trace ? trace->detail : "";
}

void wm_trace_close(struct wm_trace *trace)
{
	int state UNCANCELLED = cancel_disable();

	if (!trace)
		return;
	merge_close(trace->merge);
	trace_reader_close(trace->reader);
	process_life_list_release(&trace->lives);
	number_list_release(&trace->numbers);
	free(trace);
}
