/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/store_fixture.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

struct trail_store *store;
struct trail_sink *sink;
struct put given[THREADS_MAX];
uint64_t now;
int reached;

static void on_reached(void *data)
{
	(void)data;
	reached++;
}

void begin_with(uint64_t bytes, enum wm_policy policy, uint64_t watermark)
{
	int err = trail_store_open(&store,
				   &(struct trail_store_options){ .bytes = bytes,
								  .policy = policy,
								  .watermark_bytes = watermark,
								  .reached = on_reached });

	cr_assert_eq(err, 0, "%s", strerror(-err));
	sink = trail_store_sink(store);
}

void end(void)
{
	for (int i = 0; i < THREADS_MAX; i++)
		free(given[i].starts);
	trail_store_close(store);
}

void thread_begin(int thread)
{
	given[thread].tid = thread + 1;
	cr_assert_eq(sink->calls->thread_begin(sink, &given[thread].sink, thread + 1, "thread",
					       TRAIL_STEP, ++now),
		     0);
}

void thread_end(int thread)
{
	cr_assert_eq(sink->calls->thread_end(sink, given[thread].sink, ++now), 0);
}

static void noted(struct put *put, uint64_t start)
{
	if (put->count == put->room) {
		put->room = put->room ? put->room * 2 : 1024;
		put->starts = reallocarray(put->starts, put->room, sizeof(*put->starts));
	}
	put->starts[put->count++] = start;
}

/* Code of a block, derived from its start. */
static void code_of(uint64_t start, uint32_t bytes, uint8_t *code)
{
	for (uint32_t i = 0; i < bytes; i++)
		code[i] = (uint8_t)(start >> (i % 5 * 4)) + (uint8_t)i;
}

void block_of(int thread, uint64_t start, uint32_t bytes)
{
	uint8_t code[TRAIL_BLOCK_BYTES_MAX];
	struct trail_entry entry = { .start = start,
				     .bytes = (uint16_t)bytes,
				     .instructions = 1,
				     .kind = TRAIL_JUMP_INDIRECT };

	code_of(start, bytes, code);
	cr_assert_eq(sink->calls->block(sink, given[thread].sink, &entry, code, ++now), 0);
	noted(&given[thread], start);
}

void block(int thread, uint64_t start)
{
	block_of(thread, start, 1 + (uint32_t)(start % 15));
}

void event(int thread, enum trail_event kind)
{
	struct trail_between between = { .event = kind, .values = { 5, 6 } };

	cr_assert_eq(sink->calls->event(sink, given[thread].sink, &between, ++now), 0);
	if (kind != TRAIL_END)
		noted(&given[thread], 0);
}

/* ---- what is in it ---- */

/* Events may have been lost too, behind the blocks. */
static void skip_events(struct put *put)
{
	while (put->is_behind_loss && put->matched < put->count && !put->starts[put->matched])
		put->matched++;
	put->is_behind_loss = 0;
}

/*
 * Take in a record: it must be the next that was put, except for the records that a TRAIL_LOST
 * counts.
 */
static void match(struct put *put, const struct store_record *record)
{
	uint8_t code[TRAIL_BLOCK_BYTES_MAX];
	uint64_t lost = record->entry ? 0 : record->between.values[0];

	if (record->entry) {
		skip_events(put);
		cr_assert_lt(put->matched, put->count);
		cr_assert_eq(record->entry->start, put->starts[put->matched++]);
		code_of(record->entry->start, record->entry->bytes, code);
		cr_assert_eq(memcmp(code, record->code, record->entry->bytes), 0);
	} else if (record->between.event == TRAIL_LOST) {
		put->lost += lost;
		/* so many blocks, and what events stood before and between them */
		while (put->matched < put->count && lost)
			lost -= !!put->starts[put->matched++];
		put->is_behind_loss = 1;
		cr_assert_eq(lost, 0, "more is said to be lost than was put");
	} else if (record->between.event != TRAIL_END) {
		cr_assert_lt(put->matched, put->count);
		cr_assert_eq(put->starts[put->matched++], 0);
	}
}

static struct put *put_of(pid_t tid)
{
	return &given[tid - 1];
}

static uint64_t last_ticks;

static int match_next(const struct store_record *record, void *data)
{
	cr_assert_geq(record->ticks, last_ticks);
	last_ticks = record->ticks;
	match(data, record);
	return 0;
}

/* All that was put is there or said to be lost. */
static void check_thread(struct store_thread *thread)
{
	struct put *put = put_of(store_thread_tid(thread));

	last_ticks = put->lost = 0;
	put->matched = 0;
	put->is_behind_loss = 0;
	store_thread_each(store, thread, match_next, put);
	skip_events(put);
	cr_assert_eq(put->matched, put->count, "of %zu, %zu are reported", put->count,
		     put->matched);
}

/* And the same by index. */
void check_by_index(struct store_thread *thread)
{
	struct put *put = put_of(store_thread_tid(thread));
	uint64_t records = store_thread_records(thread);
	struct store_record record;

	put->matched = 0;
	for (uint64_t i = records; i--;) {
		cr_assert_eq(store_thread_record(store, thread, i, &record), 1);
		match(put, &record);
	}
	cr_assert_eq(store_thread_record(store, thread, records, &record), 0);
}

void check(void)
{
	struct trail_store_status status;
	struct store_thread *thread = NULL;
	uint64_t blocks = 0, lost = 0;

	while ((thread = trail_store_thread(store, thread))) {
		struct put *put = put_of(store_thread_tid(thread));

		check_thread(thread);
		lost += put->lost;
		for (size_t i = 0; i < put->count; i++)
			blocks += !!put->starts[i];
	}
	trail_store_status(store, &status);
	cr_assert_eq(status.blocks + lost, blocks);
	cr_assert_leq(status.used_bytes, status.bytes);
}

uint64_t kept(int thread)
{
	struct store_thread *at = NULL;

	while ((at = trail_store_thread(store, at)))
		if (store_thread_tid(at) == given[thread].tid)
			return store_thread_records(at);
	return 0;
}

uint64_t lost(void)
{
	struct trail_store_status status;

	trail_store_status(store, &status);
	return status.lost_blocks;
}
