/* SPDX-License-Identifier: MIT */
#include "trace/trail/write.h"

#include "trace/trail/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES (CHUNK_BYTES - PAGE_HEAD_BYTES)
#define SLOTS_MIN 1024u

/* ---- packets ---- */

static int run_end(struct trail_writer *trail, uint64_t ticks);

/* The other clocks, as they stood at a packet's begin. */
static void packet_time(const struct trail_writer *trail, struct wm_packet *head)
{
	const struct trail_clock *clock = &trail->clock;
	uint64_t ticks = head->begin_ticks - clock->ticks;
	uint64_t ns = ticks / clock->hz * 1000000000 + ticks % clock->hz * 1000000000 / clock->hz;

	head->monotonic_ns = clock->monotonic_ns + ns;
	head->monotonic_raw_ns = clock->monotonic_raw_ns + ns;
	head->realtime_ns = clock->realtime_ns + ns;
}

/* What ids mean goes first. */
static int packet_write(struct trail_writer *trail, struct trail_packet *packet)
{
	int err = 0;

	if (packet != &trail->packet) {
		err = run_end(trail, packet->ticks);
		if (!err)
			err = packet_write(trail, &trail->packet);
	}
	if (err || !packet->bytes)
		return err;
	packet->head.end_ticks = packet->ticks;
	packet_time(trail, &packet->head);
	err = trace_packet_write(trail->writer, trail->process, &packet->head, packet->content,
				 packet->bytes);
	packet->bytes = 0;
	packet->head.seq++;
	return err;
}

/* Room for an event with `bytes` of fields, its header written: *at its fields. */
static int packet_event_begin(struct trail_writer *trail, struct trail_packet *packet, int class,
			      uint32_t bytes, uint64_t ticks, uint8_t **at)
{
	uint32_t id = trail->first_class + (uint32_t) class;
	uint8_t *head;
	int err = 0;

	if (packet->bytes + EVENT_EXTENDED_BYTES + bytes > PACKET_BYTES)
		err = packet_write(trail, packet);
	if (err)
		return err;
	if (ticks < packet->ticks)
		ticks = packet->ticks; /* a packet's times don't fall */
	if (!packet->bytes)
		packet->head.begin_ticks = ticks;
	packet->ticks = ticks;
	head = packet->content + packet->bytes;
	head[0] = EVENT_EXTENDED;
	memcpy(head + 1, &id, sizeof(id));
	memcpy(head + 5, &ticks, sizeof(ticks));
	packet->bytes += EVENT_EXTENDED_BYTES + bytes;
	*at = head + EVENT_EXTENDED_BYTES;
	return 0;
}

static int packet_init(struct trail_writer *trail, struct trail_packet *packet, uint32_t pid,
		       uint32_t tid, uint64_t ticks)
{
	*packet = (struct trail_packet){ .ticks = ticks };
	packet->head.pid = pid;
	packet->head.tid = tid;
	packet->head.instance = trail->next_instance++;
	packet->content = malloc(PACKET_BYTES);
	return packet->content ? 0 : -ENOMEM;
}

/* {space, word, run} or, without `word`, {space, run}. */
static int put_run(struct trail_writer *trail, struct trail_packet *packet, int class,
		   const uint32_t *word, const void *run, uint32_t bytes, uint64_t ticks)
{
	uint8_t *at;
	int err = packet_event_begin(trail, packet, class, 4 + (word ? 4 : 0) + 5 + bytes, ticks,
				     &at);

	if (err)
		return err;
	memcpy(at, &trail->space, 4);
	at += 4;
	if (word) {
		memcpy(at, word, 4);
		at += 4;
	}
	*at = FIELD_WHOLE;
	memcpy(at + 1, &bytes, 4);
	memcpy(at + 5, run, bytes);
	return 0;
}

/* ---- what ids mean ---- */

static int run_end(struct trail_writer *trail, uint64_t ticks)
{
	int err = 0;

	if (trail->run_bytes)
		err = put_run(trail, &trail->packet, TRAIL_CLASS_DEFINE, &trail->run_first,
			      trail->run, trail->run_bytes, ticks);
	trail->run_bytes = 0;
	return err;
}

static int define(struct trail_writer *trail, uint32_t id, const struct trail_entry *entry,
		  const uint8_t *code, uint64_t ticks)
{
	uint32_t code_bytes = code ? entry->bytes : 0;
	uint32_t bytes = (uint32_t)sizeof(*entry) + code_bytes;
	uint8_t *at;
	int err = 0;

	if (trail->run_bytes + bytes > FIELD_BYTES_MAX)
		err = run_end(trail, ticks);
	if (err)
		return err;
	if (!trail->run_bytes)
		trail->run_first = id;
	at = trail->run + trail->run_bytes;
	memcpy(at, entry, sizeof(*entry));
	if (code_bytes)
		memcpy(at + sizeof(*entry), code, code_bytes);
	trail->run_bytes += bytes;
	return trail_table_define(&trail->table, id, at, bytes);
}

/* FNV-1a of what tells one block from another: where it stands, and its bytes. */
static uint64_t hash_of(uint64_t start, const uint8_t *code, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ start * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ code[i]) * 0x100000001b3ull;
	return hash ^ hash >> 29;
}

static int is_same(const struct trail_writer *trail, uint32_t id, const struct trail_entry *entry,
		   const uint8_t *code)
{
	const struct trail_block *block = &trail->table.blocks[id];
	const uint8_t *known = trail_table_code(&trail->table, block);

	return block->start == entry->start && block->bytes == entry->bytes &&
	       block->instructions == entry->instructions && block->kind == entry->kind &&
	       block->target == entry->target && !known == !code &&
	       (!code || !memcmp(known, code, entry->bytes));
}

/* Twice as many slots as ids, at least. */
static int slots_fit(struct trail_writer *trail)
{
	uint32_t count = trail->slot_count ? trail->slot_count * 2 : SLOTS_MIN;
	uint32_t *slots;

	if (trail->table.count * 2 < trail->slot_count)
		return 0;
	slots = calloc(count, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t id = 0; id < trail->table.count; id++) {
		const struct trail_block *block = &trail->table.blocks[id];
		const uint8_t *code = trail_table_code(&trail->table, block);
		uint64_t at = hash_of(block->start, code, code ? block->bytes : 0);

		while (slots[at % count])
			at++;
		slots[at % count] = id + 1;
	}
	free(trail->slots);
	trail->slots = slots;
	trail->slot_count = count;
	return 0;
}

int64_t trail_writer_id(struct trail_writer *trail, const struct trail_entry *entry,
			const uint8_t *code, uint64_t ticks)
{
	struct trail_entry mine = *entry;
	int err = slots_fit(trail);
	uint64_t at;
	uint32_t id;

	if (err)
		return err;
	mine.flags = code ? TRAIL_HAS_CODE : 0;
	at = hash_of(entry->start, code, code ? entry->bytes : 0);
	for (; (id = trail->slots[at % trail->slot_count]); at++)
		if (is_same(trail, id - 1, &mine, code))
			return id - 1;
	id = trail->table.count;
	err = define(trail, id, &mine, code, ticks);
	if (err)
		return err;
	trail->slots[at % trail->slot_count] = id + 1;
	return id;
}

int trail_writer_open(struct trail_writer *trail, struct trace_writer *writer, int process,
		      uint32_t pid, uint32_t first_class, const struct trail_clock *clock)
{
	char text[256];
	int err = 0;

	*trail = (struct trail_writer){ .writer = writer,
					.process = process,

					.clock = *clock,
					.first_class = first_class };
	for (int class = 0; class < TRAIL_CLASSES && !err; class ++) {
		err = trail_class_text((enum trail_class) class, text, sizeof(text));
		if (!err)
			err = trace_event_add(writer, process, first_class + (uint32_t) class,
					      trail_shapes[class].types, text);
	}
	trail->run = malloc(FIELD_BYTES_MAX);
	if (!err && !trail->run)
		err = -ENOMEM;
	return err ? err : packet_init(trail, &trail->packet, pid, TRAIL_TABLE_TID, clock->ticks);
}

void trail_writer_release(struct trail_writer *trail)
{
	trail_table_release(&trail->table);
	free(trail->slots);
	free(trail->run);
	free(trail->packet.content);
	*trail = (struct trail_writer){ 0 };
}

/* ---- threads ---- */

int trail_thread_begin(struct trail_writer *trail, struct trail_thread *thread, uint32_t tid,
		       const char *comm, enum trail_origin origin, uint64_t ticks)
{
	uint32_t words[3] = { trail->space, origin, 0 };
	uint8_t *at;
	int err = packet_init(trail, &thread->packet, trail->packet.head.pid, tid, ticks);

	thread->count = 0;
	if (err)
		return err;
	memcpy(thread->packet.head.comm, comm, strnlen(comm, sizeof(thread->packet.head.comm)));
	err = packet_event_begin(trail, &thread->packet, TRAIL_CLASS_BEGIN, sizeof(words), ticks,
				 &at);
	if (!err)
		memcpy(at, words, sizeof(words));
	return err;
}

static int blocks_end(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks)
{
	int err = 0;

	if (thread->count)
		err = put_run(trail, &thread->packet, TRAIL_CLASS_BLOCKS, NULL, thread->ids,
			      thread->count * 4, ticks);
	thread->count = 0;
	return err;
}

int trail_thread_block(struct trail_writer *trail, struct trail_thread *thread,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	int64_t id = trail_writer_id(trail, entry, code, ticks);

	if (id < 0)
		return (int)id;
	thread->ids[thread->count++] = (uint32_t)id;
	if (thread->count < TRAIL_RUN_IDS)
		return 0;
	return blocks_end(trail, thread, ticks);
}

int trail_thread_ids(struct trail_writer *trail, struct trail_thread *thread, const uint32_t *ids,
		     size_t count, uint64_t ticks)
{
	int err = 0;

	while (count && !err) {
		size_t room = TRAIL_RUN_IDS - thread->count, part = count < room ? count : room;

		memcpy(thread->ids + thread->count, ids, part * sizeof(*ids));
		thread->count += (uint32_t)part;
		ids += part;
		count -= part;
		if (thread->count == TRAIL_RUN_IDS)
			err = blocks_end(trail, thread, ticks);
	}
	return err;
}

int trail_thread_event(struct trail_writer *trail, struct trail_thread *thread,
		       const struct trail_between *between, uint64_t ticks)
{
	const struct trail_shape *shape = &trail_shapes[between->event];
	uint32_t bytes = 12;
	uint8_t *at;
	int err = blocks_end(trail, thread, ticks);

	for (int i = 2; i < TRAIL_FIELDS_MAX && shape->fields[i]; i++)
		bytes += 8;
	if (!err)
		err = packet_event_begin(trail, &thread->packet, between->event, bytes, ticks, &at);
	if (err)
		return err;
	memcpy(at, &between->at, 8);
	memcpy(at + 8, &between->left, 4);
	memcpy(at + 12, between->values, bytes - 12);
	return 0;
}

int trail_thread_flush(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks)
{
	int err = blocks_end(trail, thread, ticks);

	return err ? err : packet_write(trail, &thread->packet);
}

int trail_thread_end(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks)
{
	int err = trail_thread_flush(trail, thread, ticks);

	free(thread->packet.content);
	thread->packet.content = NULL;
	return err;
}
