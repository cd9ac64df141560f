/* SPDX-License-Identifier: MIT */
/* Stores filled beyond what they hold, and what is in them then, beside what was put. */
#include "record/trail/testing/store_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(store, .fini = end, .timeout = 120);

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
	/* room for more: the loss comes before it */
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

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip_test("a sanitizer's mlock(2) locks nothing");
#endif
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
