/* SPDX-License-Identifier: MIT */
#include "history/ran.h"

#include "trace/trail/sample_trail.h"

#include <criterion/criterion.h>

#define TID 101

/* nop; je itself. Behind it: nop; nop; jmp to it. And the same but for the first nop. */
static const struct trail_entry loop = { .start = 0x1000,
					 .target = 0x1000,
					 .bytes = 3,
					 .last = 1,
					 .instructions = 2,
					 .kind = TRAIL_BRANCH };
static const struct trail_entry back = { .start = 0x1003,
					 .target = 0x1000,
					 .bytes = 4,
					 .last = 2,
					 .instructions = 3,
					 .kind = TRAIL_JUMP };
static const struct trail_entry rest = { .start = 0x1004,
					 .target = 0x1000,
					 .bytes = 3,
					 .last = 1,
					 .instructions = 2,
					 .kind = TRAIL_JUMP };

enum { LOOP, BACK, REST };

static struct sample_trail sample;
static struct trace_reader *reader;
static struct trails trails;
static struct ran ran;

/* loop loop back loop loop | depart, arrive | back, of which a signal leaves two | rest loop | and nobody knows */
static void begin(void)
{
	static const struct trail_entry *const first[] = { &loop, &loop, &back, &loop, &loop };

	sample_trail_begin(&sample);
	sample_trail_thread(&sample, TID, "runs");
	for (int i = 0; i < 5; i++)
		sample_trail_ran(&sample, first[i], i == 2 ? NULL : "\x90\x74\xfd");
	sample_trail_event(&sample, TRAIL_DEPART, 0x1003, 0, 0, 0);
	sample_trail_event(&sample, TRAIL_ARRIVE, 0x1003, 0, 0, 0);
	sample_trail_ran(&sample, &back, NULL);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x1004, 2, 10, 0);
	sample_trail_ran(&sample, &rest, NULL);
	sample_trail_ran(&sample, &loop, "\x90\x74\xfd");
	sample_trail_event(&sample, TRAIL_LOST, 0, 0, 0, 0);
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(trails.path_count, 1);
	cr_assert_eq(trails.paths[0].blocks, 8);
	cr_assert_eq(reader->damages_ever, 0);
}

static void end(void)
{
	ran_release(&ran);
	trails_release(&trails, reader);
	trace_reader_close(reader);
	sample_trail_remove(&sample);
}

TestSuite(ran, .init = begin, .fini = end);

static void take(uint64_t first, uint64_t last)
{
	const struct trail_bound from = { TRAIL_BOUND_BLOCK, first },
				 to = { TRAIL_BOUND_BLOCK, last };
	struct trail_range range;

	trail_range_init(&range, reader, &trails.paths[0], &from, &to);
	cr_assert_eq(ran_take(&ran, &range), 0);
}

static void has(int id, uint64_t times, uint64_t taken, uint64_t unknown)
{
	const struct ran_count *count = &ran.tables[0].counts[id];

	cr_expect_eq(count->ran, times, "%d ran %lu times", id, count->ran);
	if (id == LOOP) {
		cr_expect_eq(count->taken, taken, "taken %lu", count->taken);
		cr_expect_eq(count->unknown, unknown, "unknown %lu", count->unknown);
	}
}

Test(ran, counts_blocks_ways_and_cuts)
{
	take(0, 100);
	cr_assert_eq(ran.count, 1);
	has(LOOP, 5, 2, 1);
	has(BACK, 2, 0, 0);
	has(REST, 1, 0, 0);
	cr_assert_eq(ran.tables[0].cut_count, 1);
	cr_expect_eq(ran.tables[0].cuts[0].id, BACK);
	cr_expect_eq(ran.tables[0].cuts[0].left, 2);
}

Test(ran, counts_a_stretch_and_nothing_beside_it)
{
	take(1, 3);
	has(LOOP, 1, 0, 0);
	has(BACK, 1, 0, 0);
	has(REST, 0, 0, 0);
	cr_expect_eq(ran.tables[0].cut_count, 0);
	take(4, 6); /* and to that another: the last before an event, and the cut one */
	has(LOOP, 2, 0, 0);
	has(BACK, 2, 0, 0);
	cr_expect_eq(ran.tables[0].cut_count, 1);
	take(3, 3);
	has(LOOP, 2, 0, 0);
}

Test(ran, pieces_make_the_whole)
{
	for (uint64_t i = 0; i < 8; i++)
		take(i, i + 1);
	has(LOOP, 5, 2, 1);
	has(BACK, 2, 0, 0);
	has(REST, 1, 0, 0);
	cr_expect_eq(ran.tables[0].cut_count, 1);
}
