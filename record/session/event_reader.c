/* SPDX-License-Identifier: MIT */
/*
 * Hand events to a callback, without a trace folder; also events in pages that are still open.
 *
 * The events of a thread come in the order of time. A signal handler's events are in a stream of
 * their own: a read hands out all events from before it began, and merges the streams of each
 * thread. (An event that a handler interrupted in its writing comes after the handler's events.)
 */
#include "record/drain/watermark.h"
#include "record/session/adopt.h"
#include "record/session/life.h"
#include "record/session/process.h"
#include "target/process/call.h"
#include "trace/decode.h"
#include "trace/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define STOP_LATER 0x7ffffffe /* our own callback's result at an event past the limit */
#define HELD_BYTES_MAX (64u << 20)
#define UNREADABLE_NS 100000000u

/* A copy of an event, kept until all streams of its thread have been read. */
struct held {
	struct held *next;
	uint32_t process; /* its number in the session */
	struct wm_event event;
	/* fields, then the bytes they point to */
};

struct reader {
	struct wm_session *session;
	struct process *process;
	int (*event)(const struct wm_event *event, void *data);
	void *data;
	uint64_t limit_ns; /* later events are left for the next read */
	uint64_t hz, base_ticks;
	unsigned char *copy; /* of a page, since the program may change the store meanwhile */
	struct drain_packet *packet;
	uint64_t at;		    /* events of this page that the pass has decoded */
	uint64_t taken;		    /* events that the pass will hand out, or has */
	int result;		    /* of the callback */
	struct held *first, **last; /* of the thread `tid` */
	size_t held_bytes;
	uint32_t tid;
};

static size_t run_bytes(const struct wm_event_field *field)
{
	int is_run = schema_type_bytes((uint8_t)field->type) < 0;

	return is_run && field->value.run.start ? field->value.run.bytes + 1 : 0;
}

/* Copy an event and all it points to into one allocation, except names, which the schema keeps. */
static struct held *hold(const struct wm_event *event, uint32_t process)
{
	size_t bytes = sizeof(struct held) + event->field_count * sizeof(*event->fields);
	struct wm_event_field *fields;
	struct held *held;
	char *at;

	for (uint32_t i = 0; i < event->field_count; i++)
		bytes += run_bytes(&event->fields[i]);
	held = malloc(bytes);
	if (!held)
		return NULL;
	held->next = NULL;
	held->process = process;
	held->event = *event;
	fields = (struct wm_event_field *)(held + 1);
	if (event->field_count)
		memcpy(fields, event->fields, event->field_count * sizeof(*fields));
	held->event.fields = fields;
	at = (char *)(fields + event->field_count);
	for (uint32_t i = 0; i < event->field_count; i++) {
		if (!run_bytes(&fields[i]))
			continue;
		memcpy(at, fields[i].value.run.start, fields[i].value.run.bytes);
		at[fields[i].value.run.bytes] = 0;
		fields[i].value.run.start = at;
		at += fields[i].value.run.bytes + 1;
	}
	return held;
}

/* Merge two chains by time; equal times keep the first chain's first. */
static struct held *merge(struct held *a, struct held *b)
{
	struct held *first = NULL, **last = &first;

	while (a && b) {
		struct held **from = b->event.realtime_ns < a->event.realtime_ns ? &b : &a;

		*last = *from;
		last = &(*from)->next;
		*from = *last;
	}
	*last = a ? a : b;
	return first;
}

/* Sort a chain that consists of a few sorted runs. */
static struct held *sort(struct held *chain)
{
	struct held *sorted = NULL;

	while (chain) {
		struct held *run = chain, *end = chain;

		while (end->next && end->next->event.realtime_ns >= end->event.realtime_ns)
			end = end->next;
		chain = end->next;
		end->next = NULL;
		sorted = merge(sorted, run);
	}
	return sorted;
}

/* Hand out a chain until the callback ends the read; the session keeps the rest. */
static int hand_out(struct wm_session *session, struct held *chain,
		    int (*event)(const struct wm_event *event, void *data), void *data)
{
	int result = 0;

	while (chain && !result) {
		struct held *next = chain->next;

		session->told_process = chain->process;
		result = event(&chain->event, data);
		free(chain);
		chain = next;
	}
	session->held = chain;
	return result;
}

/* First hand out what an earlier read left because its callback ended it. */
static int reader_resume(struct wm_session *session,
			 int (*event)(const struct wm_event *event, void *data), void *data)
{
	return hand_out(session, session->held, event, data);
}

void reader_drop(struct wm_session *session)
{
	while (session->held) {
		struct held *next = session->held->next;

		free(session->held);
		session->held = next;
	}
}

/* Hand out the events that are held of one thread. */
static void let_out(struct reader *reader)
{
	struct held *chain = sort(reader->first);

	reader->first = NULL;
	reader->last = &reader->first;
	reader->held_bytes = 0;
	if (chain)
		reader->result = hand_out(reader->session, chain, reader->event, reader->data);
}

static int take_event(const struct wm_event *event, void *data)
{
	struct reader *reader = data;
	struct held *held;

	if (event->realtime_ns >= reader->limit_ns)
		return STOP_LATER;
	if (reader->at++ < *reader->packet->delivered)
		return 0; /* an earlier read handed it out */
	held = hold(event, reader->process->number);
	if (!held)
		return -ENOMEM;
	*reader->last = held;
	reader->last = &held->next;
	(*reader->packet->delivered)++;
	reader->taken++;
	return 0;
}

static int take_packet(struct drain_packet *packet, void *data)
{
	struct reader *reader = data;
	struct wm_session *session = reader->session;
	int err;

	if (reader->result) {
		packet->keep = 1;
		return 0;
	}
	if (!packet->bytes)
		return 0;
	err = adopt_declare(session, reader->process);
	if (err)
		return err;
	if (packet->head->tid != reader->tid || reader->held_bytes > HELD_BYTES_MAX) {
		let_out(reader);
		reader->tid = packet->head->tid;
		if (reader->result) {
			packet->keep = 1;
			return 0;
		}
	}
	memcpy(reader->copy, packet->content, packet->bytes);
	reader->packet = packet;
	reader->at = 0;
	reader->held_bytes += packet->bytes;
	err = trace_decode(reader->process->schema, packet->head, reader->copy, packet->bytes,
			   reader->hz, reader->base_ticks, session->began.realtime_ns, take_event,
			   reader);
	packet->keep = err == STOP_LATER || err == -ENOMEM;
	if (err == -ENOMEM && !reader->result)
		reader->result = err;
	packet->events = reader->at;
	return err < 0 && err != -ENOMEM ? err : 0;
}

/* The present time, converted as trace_decode() does. */
static uint64_t limit_now(const struct reader *reader, uint32_t clock)
{
	struct ticks_point now;

	ticks_now(clock, &now);
	return reader->session->began.realtime_ns +
	       (uint64_t)((unsigned __int128)(now.ticks - reader->base_ticks) * 1000000000u /
			  reader->hz);
}

/*
 * Note the events that existed before the pass and that it left: those behind a page that is open
 * or damaged, and those that are later than the present by this CPU's clock. For UNREADABLE_NS, a
 * wait does not end because of them. Events that came during the pass do not count.
 */
static void note_unreadable(struct process *process, uint64_t before, uint64_t taken)
{
	uint64_t now = drain_unread(process->drain), left = before > taken ? before - taken : 0;

	process->unreadable = left < now ? left : now;
	process->unreadable_ns = ticks_monotonic_ns();
}

int reader_has_unread(const struct process *process)
{
	int is_recent = ticks_monotonic_ns() - process->unreadable_ns < UNREADABLE_NS;

	return drain_unread(process->drain) > (is_recent ? process->unreadable : 0);
}

/*
 * Hand out the available events of one process. Returns 0, the callback's result if that was not 0,
 * or a negative error. Of an invalid page the rest is dropped.
 */
static int reader_pass(struct wm_session *session, struct process *process,
		       int (*event)(const struct wm_event *event, void *data), void *data)
{
	enum drain_reach reach = session_reach(session, process);
	uint32_t clock = drain_clock(process->drain);
	struct reader reader = {
		.session = session,
		.process = process,
		.event = event,
		.data = data,
		.hz = session_hz(session, clock),
		.base_ticks = clock == STORE_CLOCK_TSC ? session->began.ticks
						       : session->began.monotonic_ns,
		.copy = malloc(STORE_PAGE_BYTES),
	};
	struct drain_sink sink = { take_packet, &reader };
	uint64_t unread = drain_unread(process->drain);
	int err;

	process->unreadable = 0;
	if (!reader.copy)
		return -ENOMEM;
	reader.tid = UINT32_MAX;
	reader.last = &reader.first;
	reader.limit_ns = reach == DRAIN_ALL ? UINT64_MAX : limit_now(&reader, clock);
	drain_scan(process->drain, reach);
	messages_pump(session, process);
	err = drain_take(process->drain, &sink);
	let_out(&reader);
	free(reader.copy);
	if (reader.result)
		return reader.result;
	note_unreadable(process, unread, reader.taken);
	/* events that could not be read are counted, and end nothing */
	return err == -WM_E_TRACE_DAMAGED || err > 0 ? 0 : err;
}

/* With process_events, first read the program that this process replaced. */
static int read_process(struct wm_session *session, struct process *process,
			int (*event)(const struct wm_event *event, void *data), void *data)
{
	struct process *older = session->options.process_events ? life_older(process) : NULL;
	int result = older ? read_process(session, older, event, data) : 0, is_last;

	if (!result)
		result = life_read(session, process, event, data);
	if (result || !process->drain)
		return result;
	is_last = process->state == PROCESS_HUNG_UP && session_reach(session, process) == DRAIN_ALL;
	result = reader_pass(session, process, event, data);
	if (!result && is_last) {
		drain_session_finish(session, process);
		process->state = PROCESS_OVER; /* HUNG_UP -> OVER */
		result = life_read(session, process, event, data);
	}
	return result;
}

int wm_session_read(struct wm_session *session,
		    int (*event)(const struct wm_event *event, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int result = event ? session_call_refused(session) : -EINVAL;

	if (result)
		return result;
	if (session->writer || session->is_written)
		return session_fail(session, -EBUSY,
				    "the session records into a folder, or for one");
	session_step(session, 0);
	session->reading = 1;
	result = reader_resume(session, event, data);
	if (!result)
		result = life_read_begins(session, event, data);
	for (struct process *p = session->processes; p && !result; p = p->next)
		result = read_process(session, p, event, data);
	session->reading = 0;
	if (session->watermark)
		watermark_wind(session->watermark);
	session_pollable_update(session);
	return result;
}
