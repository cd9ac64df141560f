/* SPDX-License-Identifier: MIT */
#include "read/history/block_counts.h"

#include "trace/trail/testing/walk.h"

#include <criterion/criterion.h>
#include <string.h>

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

/*
 * loop loop back loop loop | depart, arrive | back, cut to two by a signal | rest loop | and
 * unknown
 */
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
	block_counts_release(&ran);
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
	cr_assert_eq(block_counts_take(&ran, &range), 0);
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

/* ---- paths ---- */

/* Which of the two: with paths, or block by block. */
static void walked(struct ran *into, int has_paths, uint64_t first, uint64_t last)
{
	static const uint64_t bases[2] = { 0x1000, 0x8000 };
	const struct trail_bound from = { TRAIL_BOUND_BLOCK, first },
				 to = { TRAIL_BOUND_BLOCK, last };
	struct trail_range range;

	if (reader)
		end();
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, TID, "walks");
	sample_walk(&sample, 3, 2000, has_paths, bases);
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	cr_assert_eq(trace_reader_open(&reader, sample.folder), 0);
	cr_assert_eq(trails_read(&trails, reader), 0);
	cr_assert_eq(reader->damages_ever, 0);
	trail_range_init(&range, reader, &trails.paths[0], &from, &to);
	cr_assert_eq(block_counts_take(into, &range), 0);
	cr_assert_eq(block_counts_take(into, &range), 0);
}

struct sums {
	struct ran_count of[2 * SAMPLE_WALK_BLOCKS];
	size_t cuts;
};

/* By where blocks lie: ids differ. */
static void sums_take(struct sums *sums, const struct ran *from)
{
	memset(sums, 0, sizeof(*sums));
	for (size_t i = 0; i < from->count; i++) {
		const struct ran_table *one = &from->tables[i];

		for (uint32_t id = 0; id < one->table->count; id++) {
			const struct trail_block *block = trail_table_block(one->table, id);
			struct ran_count *sum;

			if (!block) {
				cr_assert_eq(one->counts[id].ran, 0, "of a path nothing is left");
				continue;
			}
			sum = &sums->of[block->start >= 0x8000
						? SAMPLE_WALK_BLOCKS + (block->start - 0x8000) / 16
						: (block->start - 0x1000) / 16];
			sum->ran += one->counts[id].ran;
			sum->taken += one->counts[id].taken;
			sum->unknown += one->counts[id].unknown;
		}
		sums->cuts += one->cut_count;
	}
}

Test(ran, counts_the_blocks_of_paths_as_others)
{
	static const uint64_t bounds[][2] = { { 0, 1000000 }, { 3, 900 },     { 4, 901 },
					      { 5, 902 },     { 4000, 7001 }, { 6, 7 } };

	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		struct sums with, without;

		walked(&ran, 1, bounds[i][0], bounds[i][1]);
		sums_take(&with, &ran);
		cr_expect_gt(trails.spaces[0].table.paths, 100u);
		walked(&ran, 0, bounds[i][0], bounds[i][1]);
		sums_take(&without, &ran);
		cr_expect_arr_eq(with.of, without.of, sizeof(with.of), "%zu", i);
		cr_expect_eq(with.cuts, without.cuts);
	}
}
