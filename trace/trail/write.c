/* SPDX-License-Identifier: MIT */
#include "trace/trail/write.h"

#include "base/array.h"
#include "trace/trail/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES (65536u - PAGE_HEAD_BYTES)
#define NO_PATH UINT32_MAX /* no id: TRAIL_BLOCKS_MAX is less */

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

/* Definitions of ids go first. */
static int packet_write(struct trail_writer *trail, struct trail_packet *packet)
{
	int err = trail->error;

	if (!err && packet != &trail->packet) {
		err = run_end(trail, packet->ticks);
		if (!err)
			err = packet_write(trail, &trail->packet);
	}
	if (err || !packet->bytes)
		return err;
	packet->head.end_ticks = packet->ticks;
	packet_time(trail, &packet->head);
	err = trace_packet_write(trail->writer, trail->process, &packet->head, packet->content,
				 packet->bytes, 0);
	if (err)
		return trail->error = err;
	trail->blocks_written += packet->blocks;
	trail->threads_written += packet != &trail->packet && !packet->head.seq;
	packet->blocks = 0;
	packet->bytes = 0;
	packet->head.seq++;
	return 0;
}

/* Room for an event with `bytes` of fields, its header written: *at its fields. */
static int packet_event_begin(struct trail_writer *trail, struct trail_packet *packet, int class,
			      uint32_t bytes, uint64_t ticks, uint8_t **at)
{
	uint32_t id = trail->first_class + (uint32_t) class;
	uint8_t *head;
	int err = packet->content ? 0 : -ENOMEM; /* packet_init() had none */

	if (!err && packet->bytes + EVENT_EXTENDED_BYTES + bytes > PACKET_BYTES)
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
		   uint32_t space, const uint32_t *word, const void *run, uint32_t bytes,
		   uint64_t ticks)
{
	uint8_t *at;
	int err = packet_event_begin(trail, packet, class, 4 + (word ? 4 : 0) + 5 + bytes, ticks,
				     &at);

	if (err)
		return err;
	memcpy(at, &space, 4);
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
		err = put_run(trail, &trail->packet, TRAIL_CLASS_DEFINE, trail->now.space,
			      &trail->run_first, trail->run, trail->run_bytes, ticks);
	trail->run_bytes = 0;
	return err;
}

/* Before a space's first definition: which epoch it is of. */
static int space_tell(struct trail_writer *trail, uint64_t ticks)
{
	uint32_t words[2] = { trail->now.space, module_epochs_name(&trail->epochs, trail->epoch) };
	uint8_t *at;
	int err = packet_event_begin(trail, &trail->packet, TRAIL_CLASS_SPACE, sizeof(words), ticks,
				     &at);

	if (!err)
		memcpy(at, words, sizeof(words));
	return err;
}

static int define(struct trail_writer *trail, uint32_t id, const struct trail_entry *entry,
		  const uint8_t *code, uint64_t ticks)
{
	uint32_t code_bytes = code ? entry->bytes : 0;
	uint32_t bytes = (uint32_t)sizeof(*entry) + code_bytes;
	uint8_t *at;
	int err = 0;

	if (!trail->now.table.count)
		err = space_tell(trail, ticks);
	else if (trail->run_bytes + bytes > FIELD_BYTES_MAX)
		err = run_end(trail, ticks);
	if (err)
		return err;
	if (!trail->run_bytes)
		trail->run_first = id;
	at = trail->run + trail->run_bytes;
	memcpy(at, entry, sizeof(*entry));
	if (code_bytes)
		memcpy(at + sizeof(*entry), code, code_bytes);
	err = trail_table_define(&trail->now.table, id, at, bytes);
	trail->run_bytes += err ? 0 : bytes;
	return err;
}

/* FNV-1a of a block's identity: its address and its bytes. */
static uint32_t hash_of(uint64_t start, const uint8_t *code, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ull ^ start * 0x9e3779b97f4a7c15ull;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ code[i]) * 0x100000001b3ull;
	return (uint32_t)(hash ^ hash >> 29);
}

static size_t table_bytes(const struct trail_written *written)
{
	return written->table.room * sizeof(*written->table.blocks) + written->table.code_room +
	       written->slots.room * sizeof(*written->slots.all);
}

static void written_release(struct trail_written *written)
{
	trail_table_release(&written->table);
	free(written->slots.all);
	*written = (struct trail_written){ 0 };
}

static void space_begin(struct trail_writer *trail)
{
	if (!trail->now.is_begun)
		trail->now = (struct trail_written){ .space = trail->next_space++, .is_begun = 1 };
}

/* Continue with the table of an epoch. */
static int epoch_turn(struct trail_writer *trail, uint32_t epoch, uint64_t ticks)
{
	uint32_t most = epoch > trail->epoch ? epoch : trail->epoch;
	struct trail_written last = trail->now;
	int err = run_end(trail, ticks);

	if (err)
		return err;
	if (array_grow_zeroed(&trail->written, &trail->written_room, most + 1ul, sizeof(last)))
		return -ENOMEM;
	trail->now = trail->written[epoch];
	trail->written[epoch] = (struct trail_written){ 0 };
	trail->written[trail->epoch] = last;
	trail->written_bytes += table_bytes(&last) - table_bytes(&trail->now);
	trail->epoch = epoch;
	return 0;
}

/*
 * The tables' blocks are defined, and forgotten. Threads may still have ids of them: each knows its
 * space.
 */
static int tables_renew(struct trail_writer *trail, uint64_t ticks)
{
	int err = run_end(trail, ticks);

	for (size_t i = 0; i < trail->written_room; i++)
		written_release(&trail->written[i]);
	trail->written_bytes = 0;
	written_release(&trail->now);
	space_begin(trail);
	return err;
}

static int is_too_large(const struct trail_writer *trail)
{
	return trail->written_bytes + table_bytes(&trail->now) > trail->table_bytes_max &&
	       trail->next_space < TRAIL_SPACES_MAX;
}

/* The id of this code, or of the run of a path's ids; `may_renew`: tables that are too large go. */
static int64_t id_of(struct trail_writer *trail, const struct trail_entry *entry,
		     const uint8_t *code, int may_renew, uint64_t ticks)
{
	uint32_t hash = hash_of(entry->start, code, code ? entry->bytes : 0), id;
	const struct trail_table *table = &trail->now.table;
	int err = slots_fit(&trail->now.slots);

	if (err)
		return err;
	for (uint64_t at = hash; slots_next(&trail->now.slots, hash, &at, &id);)
		if (trail_table_is_same(table, &table->blocks[id], entry, code))
			return id;
	if (may_renew && is_too_large(trail)) {
		err = tables_renew(trail, ticks);
		return err ? err : id_of(trail, entry, code, 0, ticks);
	}
	id = table->count;
	err = define(trail, id, entry, code, ticks);
	if (err)
		return err;
	slots_add(&trail->now.slots, hash, id);
	return id;
}

static struct trail_entry entry_of(const struct trail_entry *entry, const uint8_t *code)
{
	struct trail_entry mine = *entry;

	mine.flags = code ? TRAIL_HAS_CODE : 0;
	return mine;
}

int trail_writer_open(struct trail_writer *trail, struct trace_writer *writer, int process,
		      uint32_t pid, uint32_t first_class, const struct trail_clock *clock)
{
	char text[256];
	int err = 0;

	*trail = (struct trail_writer){ .writer = writer,
					.process = process,
					.table_bytes_max = TRAIL_TABLE_BYTES_MAX,
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
	for (size_t i = 0; i < trail->written_room; i++)
		written_release(&trail->written[i]);
	free(trail->written);
	written_release(&trail->now);
	free(trail->known);
	free(trail->run);
	module_epochs_release(&trail->epochs);
	free(trail->packet.content);
	*trail = (struct trail_writer){ 0 };
}

int trail_writer_module(struct trail_writer *trail, const struct control_module *module,
			const char *path)
{
	int err = module_epochs_take(&trail->epochs, module, path);

	return err ? err : trace_module_add(trail->writer, trail->process, module, path, 0);
}

/* ---- threads ---- */

/* In the table's stream, that the thread has a trail; or, `over`, all of it. */
static int thread_tell(struct trail_writer *trail, const struct trail_thread *thread, uint32_t over,
		       uint64_t ticks)
{
	uint32_t words[2] = { thread->packet.head.tid, over };
	uint8_t *at;
	int err = packet_event_begin(trail, &trail->packet, TRAIL_CLASS_THREAD,
				     sizeof(words) + sizeof(thread->blocks), ticks, &at);

	if (err)
		return err;
	memcpy(at, words, sizeof(words));
	memcpy(at + sizeof(words), &thread->blocks, sizeof(thread->blocks));
	return 0;
}

int trail_thread_begin(struct trail_writer *trail, struct trail_thread *thread, uint32_t tid,
		       const char *comm, enum trail_origin origin, uint64_t ticks)
{
	uint32_t words[3] = { trail->now.space, origin, 0 };
	uint8_t *at;
	int err = packet_init(trail, &thread->packet, trail->packet.head.pid, tid, ticks);

	thread->count = 0;
	thread->blocks = thread->put = 0;
	thread->space = trail->now.space;
	if (!err)
		err = thread_tell(trail, thread, 0, ticks);
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
		err = put_run(trail, &thread->packet, TRAIL_CLASS_BLOCKS, thread->space, NULL,
			      thread->ids, thread->count * 4, ticks);
	thread->count = 0;
	if (err)
		return err;
	thread->packet.blocks += thread->blocks - thread->put;
	thread->put = thread->blocks;
	return 0;
}

/* The thread continues in the current table. */
static int thread_settle(struct trail_writer *trail, struct trail_thread *thread, uint64_t ticks)
{
	int err = 0;

	if (thread->space != trail->now.space)
		err = blocks_end(trail, thread, ticks);
	thread->space = trail->now.space;
	return err;
}

/* An id of the table's, which means so many blocks. */
static int thread_id(struct trail_writer *trail, struct trail_thread *thread, uint32_t id,
		     uint32_t blocks, uint64_t ticks)
{
	thread->blocks += blocks;
	thread->ids[thread->count++] = id;
	return thread->count < TRAIL_RUN_IDS ? 0 : blocks_end(trail, thread, ticks);
}

void trail_thread_since(struct trail_thread *thread, uint32_t from)
{
	thread->from = from;
	thread->has_from = 1;
}

/* To the table of the epoch in which the thread's next block ran. */
static int thread_turn(struct trail_writer *trail, const struct trail_thread *thread,
		       uint64_t ticks)
{
	uint32_t epoch = thread->has_from ? module_epochs_index(&trail->epochs, thread->from)
					  : trail->epochs.now;
	int err = epoch == trail->epoch ? 0 : epoch_turn(trail, epoch, ticks);

	space_begin(trail);
	return err;
}

int trail_thread_block(struct trail_writer *trail, struct trail_thread *thread,
		       const struct trail_entry *entry, const uint8_t *code, uint64_t ticks)
{
	struct trail_entry mine = entry_of(entry, code);
	int err = thread_turn(trail, thread, ticks);
	int64_t id = err ? err : id_of(trail, &mine, code, 1, ticks);

	err = id < 0 ? (int)id : thread_settle(trail, thread, ticks);
	return err ? err : thread_id(trail, thread, (uint32_t)id, 1, ticks);
}

/* Define it in this table: NO_PATH for blocks that do not make a path. */
static int64_t path_define(struct trail_writer *trail, const struct trail_source_path *path,
			   uint64_t ticks)
{
	struct trail_entry entry = { .bytes = (uint16_t)(4 * path->count),
				     .instructions = (uint16_t)path->count,
				     .kind = TRAIL_PATH,
				     .flags = TRAIL_HAS_CODE };
	uint32_t ids[TRAIL_PATH_BLOCKS_MAX];
	int64_t id = 0;

	for (uint32_t i = 0; i < path->count; i++) {
		const struct trail_source_block *block = &path->blocks[i];
		struct trail_entry mine = entry_of(&block->entry, block->code);

		id = id_of(trail, &mine, block->code, 0, ticks);
		if (id < 0)
			return id;
		ids[i] = (uint32_t)id;
	}
	if (path->count > 1)
		id = id_of(trail, &entry, (const uint8_t *)ids, 0, ticks);
	return id == -EINVAL ? NO_PATH : id;
}

static int64_t path_id(struct trail_writer *trail, const struct trail_source_path *path,
		       uint64_t ticks)
{
	int64_t id;
	int err = 0;

	if (path->number < trail->known_room &&
	    trail->known[path->number].space == trail->now.space + 1)
		return trail->known[path->number].id;
	if (path->count > TRAIL_PATH_BLOCKS_MAX)
		return NO_PATH;
	if (array_grow_zeroed(&trail->known, &trail->known_room, path->number + (size_t)1,
			      sizeof(*trail->known)))
		return -ENOMEM;
	if (is_too_large(trail))
		err = tables_renew(trail, ticks);
	id = err ? err : path_define(trail, path, ticks);
	if (id >= 0)
		trail->known[path->number] = (struct trail_known){ trail->now.space + 1,
								   (uint32_t)id };
	return id;
}

int trail_thread_path(struct trail_writer *trail, struct trail_thread *thread,
		      const struct trail_source_path *path, uint64_t ticks)
{
	int err = thread_turn(trail, thread, ticks);
	int64_t id = err ? err : path_id(trail, path, ticks);

	err = id < 0 ? (int)id : 0;

	if (!err && id != NO_PATH) {
		err = thread_settle(trail, thread, ticks);
		return err ? err : thread_id(trail, thread, (uint32_t)id, path->count, ticks);
	}
	for (uint32_t i = 0; i < path->count && !err; i++)
		err = trail_thread_block(trail, thread, &path->blocks[i].entry,
					 path->blocks[i].code, ticks);
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

	if (!err) /* only once all of it is there */
		err = thread_tell(trail, thread, 1, ticks);
	if (!err)
		err = packet_write(trail, &trail->packet);
	free(thread->packet.content);
	thread->packet.content = NULL;
	return err;
}
