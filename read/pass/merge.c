/* SPDX-License-Identifier: MIT */
/*
 * A heap of streams, by the time of each one's next event. The stream on top hands out its events
 * while none in the heap is earlier, which costs two comparisons an event. A stream is opened when
 * its first packet's time has come and closed after its last: of a hundred thousand threads that
 * lived one after the other, few are in memory at once.
 */
#include "read/pass/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <waymark/error.h>

struct cursor {
	struct trace_stream *stream;
	uint32_t order; /* breaks ties */
	uint32_t clock;
	int begun;	 /* an event is pending */
	int ended;	 /* the pending one has no class and represents losses; no more follow */
	uint64_t ns;	 /* of the pending event; before the first, of the stream's begin */
	uint64_t offset; /* of the next packet */
	uint64_t packets, next_seq, discarded; /* up to the packet being read */
	struct trace_packet packet;
	struct merge_event event; /* pending */
};

struct merge {
	struct trace_reader *reader;
	uint64_t from_ns;
	struct cursor *cursors;
	struct cursor **heap;
	uint32_t count;
	int handed; /* the heap's top was handed out: step it before the next */
};

static int before(const struct cursor *a, const struct cursor *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a->order < b->order;
}

/* The cursor at `place` may be too late for it: let it sink. */
static void sink(struct merge *merge, uint32_t place)
{
	struct cursor *moved = merge->heap[place];

	for (;;) {
		uint32_t child = place * 2 + 1;

		if (child >= merge->count)
			break;
		if (child + 1 < merge->count && before(merge->heap[child + 1], merge->heap[child]))
			child++;
		if (!before(merge->heap[child], moved))
			break;
		merge->heap[place] = merge->heap[child];
		place = child;
	}
	merge->heap[place] = moved;
}

static void pop(struct merge *merge)
{
	reader_stream_unmap(merge->heap[0]->stream);
	merge->heap[0] = merge->heap[--merge->count];
	if (merge->count)
		sink(merge, 0);
}

/* Losses between the packets before and this one. */
static void count_losses(struct cursor *cursor, const struct wm_packet *head)
{
	if (head->discarded > cursor->discarded) {
		cursor->event.lost += head->discarded - cursor->discarded;
		cursor->discarded = head->discarded;
	}
	if (cursor->packets++ && head->seq > cursor->next_seq)
		cursor->event.missing_packets += head->seq - cursor->next_seq;
	cursor->next_seq = head->seq + 1;
}

/* Go to the next packet that is wanted. 0 after the last. */
static int next_packet(struct merge *merge, struct cursor *cursor)
{
	struct trace_reader *reader = merge->reader;

	while (reader_stream_packet(reader, cursor->stream, &cursor->offset, &cursor->packet)) {
		const struct wm_packet *head = &cursor->packet.head;

		count_losses(cursor, head);
		if (reader_ns(reader, cursor->clock, head->end_ticks) >= merge->from_ns)
			return 1;
		cursor->event.lost = cursor->event.missing_packets = 0;
	}
	return 0;
}

/* The rest of the packet can't be read: record that, and continue with the next one. */
static void damaged(struct merge *merge, struct cursor *cursor, const uint8_t *start,
		    const char *what)
{
	struct walk *walk = &cursor->packet.walk;

	reader_damage(merge->reader, cursor->stream->file,
		      cursor->packet.offset + (uint64_t)(start - cursor->packet.bytes),
		      (uint64_t)(walk->end - start), what);
	walk->at = walk->end;
	cursor->event.is_after_damage = 1;
}

/* Make the cursor's next event pending. 0 at the end. */
static int step(struct merge *merge, struct cursor *cursor)
{
	const struct trace_schema *schema = stream_schema(merge->reader, cursor->stream);
	struct walk *walk = &cursor->packet.walk;

	if (cursor->ended)
		return 0;
	for (;;) {
		const uint8_t *start = walk->at;
		const char *fault;

		if (start == walk->end) {
			if (!next_packet(merge, cursor))
				break;
			continue;
		}
		fault = reader_packet_event(&cursor->packet, schema, &cursor->event.class,
					    &cursor->event.fields);
		if (fault) {
			damaged(merge, cursor, start, fault);
			continue;
		}
		cursor->ns = reader_ns(merge->reader, cursor->clock, walk->ticks);
		if (cursor->ns < merge->from_ns)
			continue;
		cursor->event.ticks = walk->ticks;
		cursor->event.end = walk->at;
		if (cursor->stream->is_of_cpu)
			event_thread(cursor->event.class, cursor->event.fields, &cursor->event.pid,
				     &cursor->event.tid);
		cursor->event.ns = cursor->ns;
		return 1;
	}
	cursor->ended = 1;
	cursor->event.class = NULL;
	if (cursor->stream->is_of_cpu)
		cursor->event.pid = cursor->event.tid = 0;
	cursor->event.ticks = cursor->packet.head.end_ticks;
	cursor->ns = reader_ns(merge->reader, cursor->clock, cursor->event.ticks);
	cursor->event.ns = cursor->ns;
	return cursor->event.lost || cursor->event.missing_packets;
}

/* The stream's time has come: find its first event. 0 for a stream without events. */
static int begin(struct merge *merge, struct cursor *cursor)
{
	int err = reader_stream_open(merge->reader, cursor->stream);

	cursor->begun = 1;
	if (err) {
		reader_damage(merge->reader, cursor->stream->file, 0, cursor->stream->bytes,
			      "can't be read any more");
		return err == -ENOMEM ? err : 0;
	}
	return step(merge, cursor);
}

int merge_open(struct merge **merge, struct trace_reader *reader, uint64_t from_ns,
	       int (*want)(const struct trace_stream *stream, void *data), void *data)
{
	size_t room = reader->stream_count ? reader->stream_count : 1;
	struct merge *made = calloc(1, sizeof(*made));

	*merge = made;
	if (!made)
		return -ENOMEM;
	made->reader = reader;
	made->from_ns = from_ns;
	made->cursors = calloc(room, sizeof(*made->cursors));
	made->heap = calloc(room, sizeof(struct cursor *));
	if (!made->cursors || !made->heap) {
		merge_close(made);
		*merge = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < reader->stream_count; i++) {
		struct trace_stream *stream = &reader->streams[i];
		struct cursor *cursor = &made->cursors[made->count];

		if (!stream->packets || (want && !want(stream, data)))
			continue;
		*cursor = (struct cursor){ .stream = stream, .order = i };
		cursor->clock = stream_clock(reader, stream);
		cursor->ns = reader_ns(reader, cursor->clock, stream->begin_ticks);
		cursor->event.stream = stream;
		cursor->event.pid = stream->is_of_cpu ? 0 : stream->pid;
		cursor->event.tid = stream->is_of_cpu ? 0 : stream->tid;
		made->heap[made->count++] = cursor;
	}
	for (uint32_t i = made->count / 2; i-- > 0;)
		sink(made, i);
	return 0;
}

int merge_next(struct merge *merge, struct merge_event *event)
{
	while (merge->count) {
		struct cursor *top = merge->heap[0];
		int more = 1;

		if (!top->begun) {
			more = begin(merge, top);
		} else if (merge->handed) {
			top->event.lost = top->event.missing_packets = 0;
			top->event.is_after_damage = 0;
			merge->handed = 0;
			more = step(merge, top);
		} else {
			*event = top->event;
			merge->handed = 1;
			return 1;
		}
		if (more < 0)
			return more;
		if (more)
			sink(merge, 0);
		else
			pop(merge);
	}
	return 0;
}

void merge_event_make(const struct merge_event *event, struct wm_event *made,
		      struct wm_event_field *fields)
{
	const struct trace_class *class = event->class;

	trace_fields(fields, class, event->fields);
	*made = (struct wm_event){
		.size = sizeof(*made),
		.name = class->name,
		.kind = class->kind,
		.pid = event->pid,
		.tid = event->tid,
		.cpu = event->stream->cpu,
		.realtime_ns = event->ns,
		.field_count = class->count,
		.fields = fields,
	};
}

void merge_close(struct merge *merge)
{
	if (!merge)
		return;
	for (uint32_t i = 0; merge->cursors && i < merge->reader->stream_count; i++)
		if (merge->cursors[i].stream)
			reader_stream_unmap(merge->cursors[i].stream);
	free(merge->cursors);
	free(merge->heap);
	free(merge);
}

/* ---- a pass for observers ---- */

struct pass {
	struct trace_reader *reader;
	/* of each process: a bit for each observer, by class index; behind them, of all classes */
	uint8_t **wanted;
};

static uint32_t class_count(const struct trace_reader *reader, uint32_t process)
{
	const struct trace_schema *schema = reader->meta.processes[process].schema;

	return schema ? schema->count : 0;
}

static int is_wanted(const struct trace_stream *stream, void *data)
{
	const struct pass *pass = data;

	return pass->wanted[stream->process][class_count(pass->reader, stream->process)] != 0;
}

static int classes_ask(struct pass *pass, struct pass_observer *const *observers,
		       unsigned int count)
{
	const struct facts *meta = &pass->reader->meta;

	pass->wanted = calloc((size_t)meta->process_count + 1, sizeof(*pass->wanted));
	for (uint32_t i = 0; pass->wanted && i < meta->process_count; i++) {
		uint32_t classes = class_count(pass->reader, i);
		uint8_t *wanted = pass->wanted[i] = calloc(classes + 1u, 1);

		if (!wanted)
			return -ENOMEM;
		for (uint32_t j = 0; j < classes; j++) {
			for (unsigned int k = 0; k < count; k++)
				if (observers[k]->wants(observers[k], i,
							meta->processes[i].schema->classes[j]))
					wanted[j] |= (uint8_t)(1u << k);
			wanted[classes] |= wanted[j];
		}
	}
	return pass->wanted ? 0 : -ENOMEM;
}

static int events_read(struct pass *pass, struct pass_observer *const *observers,
		       unsigned int count)
{
	struct merge_event event;
	struct merge *merge;
	int err = merge_open(&merge, pass->reader, 0, is_wanted, pass);

	if (err)
		return err;
	while (!err && (err = merge_next(merge, &event)) > 0) {
		uint32_t process = event.stream->process;
		uint8_t by = pass->wanted[process][pass_is_gap(&event)
							   ? class_count(pass->reader, process)
							   : event.class->index];

		err = 0;
		for (unsigned int i = 0; i < count && !err; i++)
			if (by & 1u << i)
				err = observers[i]->take(observers[i], &event);
	}
	merge_close(merge);
	return err;
}

int pass_read(struct trace_reader *reader, struct pass_observer *const *observers,
	      unsigned int count)
{
	struct pass pass = { .reader = reader };
	int err = classes_ask(&pass, observers, count);

	if (!err)
		err = events_read(&pass, observers, count);
	for (uint32_t i = 0; pass.wanted && i < reader->meta.process_count; i++)
		free(pass.wanted[i]);
	free(pass.wanted);
	return err;
}
