/* SPDX-License-Identifier: MIT */
/* Stores filled beyond what they hold, and what is in them then, beside what was put. */
#include "session/trail/store.h"
#include "session/trail/files.h"
#include "session/trail/store_own.h"
#include "trace/sample.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
#define SMALL TRAIL_STORE_BYTES_MIN

/* All that was put, so that what is kept can be compared with it. */
struct put {
	uint64_t *starts; /* of blocks; 0: an event */
	size_t count, room;
	uint64_t lost;	/* blocks, as the store said it in this thread's events */
	size_t matched; /* of them, when it is read */
	int is_behind_loss;
	struct sink_thread *sink;
	pid_t tid;
};

static struct trail_store *store;
static struct trail_sink *sink;
static struct put given[THREADS_MAX];
static uint64_t now;
static int reached;

static void on_reached(void *data)
{
	(void)data;
	reached++;
}

static void begin_with(uint64_t bytes, enum wm_policy policy, uint64_t watermark)
{
	int err = trail_store_open(&store,
				   &(struct trail_store_options){ .bytes = bytes,
								  .policy = policy,
								  .watermark_bytes = watermark,
								  .reached = on_reached });

	cr_assert_eq(err, 0, "%s", strerror(-err));
	sink = trail_store_sink(store);
}

static void end(void)
{
	for (int i = 0; i < THREADS_MAX; i++)
		free(given[i].starts);
	trail_store_close(store);
}

TestSuite(store, .fini = end, .timeout = 120);

static void thread_begin(int thread)
{
	given[thread].tid = thread + 1;
	cr_assert_eq(sink->calls->thread_begin(sink, &given[thread].sink, thread + 1, "thread",
					       TRAIL_STEP, ++now),
		     0);
}

static void thread_end(int thread)
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

/* Code of a block, told by its start. */
static void code_of(uint64_t start, uint32_t bytes, uint8_t *code)
{
	for (uint32_t i = 0; i < bytes; i++)
		code[i] = (uint8_t)(start >> (i % 5 * 4)) + (uint8_t)i;
}

static void block_of(int thread, uint64_t start, uint32_t bytes)
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

static void block(int thread, uint64_t start)
{
	block_of(thread, start, 1 + (uint32_t)(start % 15));
}

static void event(int thread, enum trail_event kind)
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

/* Take in a record: it must be the next that was put, but for what a TRAIL_LOST says. */
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
	cr_assert_eq(put->matched, put->count, "of %zu, %zu are told of", put->count, put->matched);
}

/* And the same by index. */
static void check_by_index(struct store_thread *thread)
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

static void check(void)
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

static uint64_t kept(int thread)
{
	struct store_thread *at = NULL;

	while ((at = trail_store_thread(store, at)))
		if (store_thread_tid(at) == given[thread].tid)
			return store_thread_records(at);
	return 0;
}

static uint64_t lost(void)
{
	struct trail_store_status status;

	trail_store_status(store, &status);
	return status.lost_blocks;
}

/* ---- tests ---- */

Test(store, keeps_what_fits_as_it_was_put)
{
	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	thread_begin(0);
	for (uint64_t i = 1; i <= 100; i++)
		block(0, i % 10 + 1);
	event(0, TRAIL_FORK);
	event(0, TRAIL_END);
	thread_end(0);
	check();
	cr_expect_eq(kept(0), 102);
	cr_expect_eq(lost(), 0);
}

/* As many records as to wrap at every place of a chunk, with events in between, that wrap too. */
Test(store, loses_the_oldest_and_says_how_many_wherever_it_wraps)
{
	struct store_record record;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	thread_begin(0);
	for (uint64_t i = 1; i <= 5000; i++) {
		block(0, i % 7 + 1);
		if (i % 50 == 0)
			event(0, TRAIL_FORK);
	}
	for (uint64_t i = 1; i <= 600; i++) {
		block(0, i % 7 + 1);
		check();
	}
	check_by_index(trail_store_thread(store, NULL));
	cr_expect_gt(lost(), 0);
	cr_expect_gt(kept(0), 3000);
	cr_assert_eq(store_thread_record(store, trail_store_thread(store, NULL), kept(0) - 1,
					 &record),
		     1);
	cr_expect_eq(record.between.event, TRAIL_LOST);
	cr_expect_gt(record.ticks, 1, "they were lost at the time of the last of them");
}

Test(store, loses_the_newest_and_says_where_they_are_missing)
{
	struct store_record record;
	struct store_thread *thread;
	uint64_t before;

	begin_with(SMALL, WM_POLICY_DISCARD, 0);
	thread_begin(0);
	for (uint64_t i = 1; i <= 20000; i++)
		block(0, i % 7 + 1);
	before = lost();
	cr_assert_gt(before, 0);
	check();
	thread = trail_store_thread(store, NULL);
	cr_assert_eq(store_thread_record(store, thread, 0, &record), 1);
	cr_expect_eq(record.between.event, TRAIL_LOST);
	cr_expect_eq(record.between.values[0], before);
	/* room for more: the loss stands before it */
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(store_thread_take(store, thread, &record), 1);
		cr_assert_not_null(record.entry);
	}
	for (uint64_t i = 1; i <= 10; i++)
		block(0, i);
	cr_expect_eq(lost(), before);
	cr_assert_eq(store_thread_record(store, thread, 10, &record), 1);
	cr_expect_eq(record.between.event, TRAIL_LOST);
	cr_expect_eq(record.between.values[0], before);
	event(0, TRAIL_END);
	thread_end(0);
	while (store_thread_take(store, thread, &record))
		;
	cr_expect_null(trail_store_thread(store, NULL));
}

Test(store, keeps_how_a_thread_ended_when_nothing_else_finds_room)
{
	struct store_record record;

	begin_with(SMALL, WM_POLICY_DISCARD, 0);
	thread_begin(0);
	for (uint64_t i = 1; i <= 20000; i++)
		block(0, i % 7 + 1);
	event(0, TRAIL_END);
	thread_end(0);
	cr_assert_eq(store_thread_record(store, trail_store_thread(store, NULL), 0, &record), 1);
	cr_expect_eq(record.between.event, TRAIL_END);
	check();
}

/* None but the loud one loses anything, until all have the same. */
Test(store, is_fair_to_quiet_threads)
{
	begin_with(SMALL * 8, WM_POLICY_CYCLIC, 0);
	for (int i = 0; i < 16; i++) {
		thread_begin(i);
		for (uint64_t j = 1; j <= 300; j++)
			block(i, j % 7 + 1);
	}
	for (uint64_t i = 1; i <= 200000; i++)
		block(0, i % 7 + 1);
	for (int i = 1; i < 16; i++)
		cr_expect_eq(kept(i), 300);
	check();
	/* then a second one is loud: they have about the same */
	for (uint64_t i = 1; i <= 200000; i++)
		block(1, i % 7 + 1);
	cr_expect_gt(kept(1) * 2, kept(0));
	cr_expect_gt(kept(0) * 2, kept(1));
	check();
}

Test(store, gives_the_chunks_of_threads_that_ended_to_those_that_live)
{
	struct trail_store_status status;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	for (int i = 0; i < 40; i++) {
		thread_begin(i);
		for (uint64_t j = 1; j <= 50; j++)
			block(i, j % 7 + 1);
		event(i, TRAIL_END);
		thread_end(i);
	}
	trail_store_status(store, &status);
	cr_expect_gt(status.lost_blocks, 0);
	cr_expect_eq(status.blocks + status.lost_blocks, 40 * 50);
	cr_expect_eq(kept(0), 0);
	cr_expect_eq(kept(39), 51);
	check();
}

/* Nobody has a second chunk to give: who comes last has nothing, and that is said. */
Test(store, counts_what_threads_without_a_chunk_did)
{
	struct trail_store_status status;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	for (int i = 0; i < 30; i++) {
		thread_begin(i);
		for (uint64_t j = 1; j <= 10; j++)
			block(i, j);
	}
	check();
	trail_store_status(store, &status);
	cr_expect_eq(status.blocks + status.lost_blocks, 300);
	cr_expect_eq(status.threads + status.lost_threads, 30);
	cr_expect_gt(status.lost_blocks, 0);
}

/* Code that never comes again: its blocks are far larger than its records. */
Test(store, keeps_its_table_within_its_share)
{
	struct trail_store_status status;

	begin_with(SMALL * 4, WM_POLICY_CYCLIC, 0);
	thread_begin(0);
	thread_begin(1);
	for (uint64_t i = 1; i <= 20000; i++) {
		block_of((int)(i % 2), i, 1 + (uint32_t)(i * 37 % 900));
		if (i % 997)
			continue;
		check();
		trail_store_status(store, &status);
		cr_assert_leq(status.table_bytes, status.bytes * 3 / 4);
	}
	cr_expect_gt(kept(0), 10);
	check();
}

Test(store, discards_blocks_that_its_table_has_no_room_for)
{
	begin_with(SMALL, WM_POLICY_DISCARD, 0);
	thread_begin(0);
	for (uint64_t i = 1; i <= 2000; i++) {
		block_of(0, i, 500);
		if (i > 1000) /* known ones still find room */
			block_of(0, 1, 500);
	}
	check();
	cr_expect_gt(kept(0), 50);
	cr_expect_gt(lost(), 500);
}

Test(store, tells_blocks_of_one_address_apart_by_their_code)
{
	struct trail_entry entry = { .start = 64, .bytes = 2, .instructions = 2 };
	struct store_record record;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	thread_begin(0);
	sink->calls->block(sink, given[0].sink, &entry, (const uint8_t *)"ab", 1);
	sink->calls->block(sink, given[0].sink, &entry, (const uint8_t *)"ac", 2);
	sink->calls->block(sink, given[0].sink, &entry, NULL, 3);
	for (int i = 0; i < 3; i++) {
		store_thread_record(store, trail_store_thread(store, NULL), (uint64_t)i, &record);
		if (i)
			cr_expect_eq(record.code[1], i == 1 ? 'c' : 'b');
		else
			cr_expect_null(record.code);
	}
}

Test(store, reaches_its_watermark_once_until_it_is_below)
{
	struct trail_store_status status;
	struct store_record record;

	begin_with(SMALL * 2, WM_POLICY_NOTIFY, SMALL);
	thread_begin(0);
	while (!reached) {
		block(0, ++now % 7 + 1);
		trail_store_status(store, &status);
		cr_assert_eq(reached, status.used_bytes >= SMALL);
	}
	cr_assert_geq(status.used_bytes, SMALL);
	for (int i = 0; i < 20000; i++)
		block(0, 1);
	cr_expect_eq(reached, 1);
	cr_expect_gt(lost(), 0, "full, it loses the newest");
	while (store_thread_take(store, trail_store_thread(store, NULL), &record))
		;
	for (int i = 0; i < 20000; i++)
		block(0, 1);
	cr_expect_eq(reached, 2);
}

/* An origin that asks before it lets threads go loses nothing, however small the store. */
Test(store, says_that_it_is_full_before_it_loses_anything)
{
	struct store_record record;
	struct store_thread *thread;
	int fulls = 0;

	begin_with(SMALL, WM_POLICY_BLOCK, 0);
	thread_begin(0);
	thread_begin(1);
	for (uint64_t i = 1; i <= 30000; i++) {
		if (sink->calls->is_full(sink)) {
			fulls++;
			thread = NULL;
			while ((thread = trail_store_thread(store, thread)))
				while (store_thread_take(store, thread, &record))
					;
		}
		cr_assert(!sink->calls->is_full(sink));
		block_of(0, i * 8, 1 + (uint32_t)(i % 900));
		event(0, TRAIL_FORK);
		block(1, i % 9 + 1);
	}
	cr_expect_gt(fulls, 1);
	cr_expect_eq(lost(), 0);
}

Test(store, forgets_all_when_cleared_and_goes_on)
{
	struct trail_store_status status;

	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	thread_begin(0);
	thread_begin(1);
	for (uint64_t i = 1; i <= 20000; i++)
		block(0, i % 7 + 1);
	event(1, TRAIL_END);
	thread_end(1);
	trail_store_clear(store);
	trail_store_status(store, &status);
	cr_expect_eq(status.blocks, 0);
	cr_expect_eq(status.threads, 1);
	cr_expect_eq(kept(0), 0);
	given[0].count = 0;
	for (uint64_t i = 1; i <= 10; i++)
		block(0, i);
	cr_expect_eq(kept(0), 10, "and no loss before them");
	check();
}

/* ---- written to another sink: a second store, whose bound is not reached ---- */

Test(store, writes_itself_into_another_sink)
{
	static const struct control_module module = { .base = 0x1000 };
	struct trail_store *first, *second;

	begin_with(SMALL * 4, WM_POLICY_CYCLIC, 0);
	first = store;
	for (int i = 0; i < 20; i++)
		sink->calls->module(sink, &module, "/usr/lib/x86_64-linux-gnu/libexample.so.1");
	for (int i = 0; i < 3; i++)
		thread_begin(i);
	for (uint64_t i = 1; i <= 60000; i++) {
		block((int)(i % 3), i % 11 + 1);
		if (i % 100 == 0)
			event((int)(i % 3), TRAIL_FORK);
	}
	event(2, TRAIL_END);
	thread_end(2);
	check();
	begin_with(SMALL * 32, WM_POLICY_DISCARD, 0);
	second = store;
	cr_assert_eq(trail_store_write(first, sink), 0);
	check();
	for (int i = 0; i < 3; i++) {
		uint64_t copied = kept(i);

		store = first;
		cr_expect_eq(copied, kept(i));
		store = second;
	}
	trail_store_close(first);
}

/* A block of two instructions of which one runs, and what says so; as a signal may come. */
static void half_a_block(uint64_t start)
{
	struct trail_entry entry = { .start = start,
				     .bytes = 2,
				     .last = 1,
				     .instructions = 2,
				     .kind = TRAIL_JUMP_INDIRECT };
	struct trail_between signal = { .event = TRAIL_SIGNAL, .at = start + 1, .left = 1 };

	sink->calls->block(sink, given[0].sink, &entry, (const uint8_t *)"\x90\x90", ++now);
	sink->calls->event(sink, given[0].sink, &signal, ++now);
	sink->calls->block(sink, given[0].sink,
			   &(struct trail_entry){ .start = start + 1,
						  .bytes = 1,
						  .instructions = 1,
						  .kind = TRAIL_JUMP_INDIRECT },
			   (const uint8_t *)"\x90", ++now);
}

/* Read back what is written now: it is whole, and says what is missing. */
static void check_as_files(void)
{
	struct trail_store_status status;
	struct trace_writer *writer;
	struct trace_reader *reader;
	struct trail_files files;
	struct trails trails;
	char folder[64];

	sample_folder(folder);
	cr_assert_eq(trace_writer_open(&writer, folder), 0);
	trail_files_init(&files, writer);
	cr_assert_eq(files.sink.calls->begin(&files.sink, getpid()), 0);
	cr_assert_eq(trail_store_write(store, &files.sink), 0);
	trail_files_release(&files);
	cr_assert_eq(trace_writer_close(writer), 0);
	cr_assert_eq(trace_reader_open(&reader, folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0, "%s", reader->damages[0].what);
	trail_store_status(store, &status);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(trails.paths[0].blocks, status.blocks);
	cr_assert_eq(trails.paths[0].parts[0].between.event, TRAIL_LOST);
	cr_assert_eq(trails.paths[0].parts[0].between.values[0], status.lost_blocks);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_folder_remove(folder);
}

/* What is cut off at the begin leaves nothing that can't follow. */
Test(store, is_a_whole_trail_wherever_it_was_cut)
{
	/* 12 words each time, and one more now and then: chunks begin with each of the three records */
	begin_with(SMALL, WM_POLICY_CYCLIC, 0);
	now = 1000000000;
	thread_begin(0);
	for (uint64_t i = 0; i < 2000; i++)
		half_a_block(100 + i % 5 * 10);
	for (uint64_t i = 0; i < 60; i++) {
		for (uint64_t j = 0; j < 45; j++)
			half_a_block(100 + j % 5 * 10);
		block(0, 7);
		check_as_files();
	}
}

/* ---- its memory ---- */

static uint64_t locked_bytes(void)
{
	char line[128];
	uint64_t kilobytes = 0;
	FILE *file = fopen("/proc/self/status", "re");

	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, "VmLck:", 6))
			kilobytes = strtoull(line + 6, NULL, 10);
	fclose(file);
	return kilobytes * 1024;
}

Test(store, has_exactly_the_bytes_that_it_was_given)
{
	struct trail_store_options options = { .bytes = SMALL * 5 + 4095, .is_locked = 1 };
	struct trail_store_status status;

	cr_assert_eq(locked_bytes(), 0);
	cr_assert_eq(trail_store_open(&store, &options), 0);
	cr_expect_eq(locked_bytes(), SMALL * 5);
	trail_store_status(store, &status);
	cr_expect_eq(status.bytes, SMALL * 5);
	trail_store_close(store);
	cr_expect_eq(locked_bytes(), 0);
	store = NULL;
}

Test(store, is_refused_where_it_is_too_small_or_too_large)
{
	struct trail_store_options options = { .bytes = TRAIL_BLOCK_BYTES_MAX };

	cr_expect_eq(trail_store_open(&store, &options), -EINVAL);
	options.bytes = TRAIL_STORE_BYTES_MIN - 1;
	cr_expect_eq(trail_store_open(&store, &options), -EINVAL);
	options.bytes = TRAIL_STORE_BYTES_MAX + 4096;
	cr_expect_eq(trail_store_open(&store, &options), -EINVAL);
	cr_expect_null(store);
}
