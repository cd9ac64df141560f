/* SPDX-License-Identifier: MIT */
/*
 * Ids that mean several blocks: the same walk, written with them and without, is the same to every
 * reader.
 */
#include "trace/testing/packets.h"
#include "trace/trail/range.h"
#include "trace/trail/testing/walk.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TID 101u
#define PATHS 3000u

/* Written with paths, and block by block. */
static struct one {
	struct sample_trail sample;
	struct trace_reader *reader;
	struct trails trails;
} with, without;

static const uint64_t bases[2] = { 0x1000, 0x8000 };

static void begin(void)
{
	sample_trail_begin(&with.sample);
	sample_trail_begin(&without.sample);
	sample_trail_thread(&with.sample, TID, "name");
	sample_trail_thread(&without.sample, TID, "name");
}

static void end(void)
{
	trails_release(&with.trails, with.reader);
	trace_reader_close(with.reader);
	sample_trail_remove(&with.sample);
	trails_release(&without.trails, without.reader);
	trace_reader_close(without.reader);
	sample_trail_remove(&without.sample);
}

TestSuite(paths, .init = begin, .fini = end);

static const struct trail_path *read_back(struct one *one)
{
	sample_trail_thread_end(&one->sample);
	sample_trail_close(&one->sample);
	cr_assert_eq(trace_reader_open(&one->reader, one->sample.folder), 0);
	cr_assert_eq(trails_read(&one->trails, one->reader), 0);
	cr_assert_eq(one->reader->damages_ever, 0, "%s", one->reader->damages[0].what);
	cr_assert_eq(one->trails.path_count, 1);
	return &one->trails.paths[0];
}

static void walk_both(unsigned int paths, const uint64_t at[2])
{
	uint64_t blocks = sample_walk(&with.sample, 1, paths, 1, at);

	cr_assert_eq(sample_walk(&without.sample, 1, paths, 0, at), blocks);
	cr_assert_eq(read_back(&with)->blocks, blocks);
	cr_assert_eq(read_back(&without)->blocks, blocks);
}

static void same(const struct trail_item *a, const struct trail_item *b)
{
	cr_assert_eq(!a->block, !b->block, "block %lu", b->index);
	cr_assert_eq(a->index, b->index);
	if (a->block) {
		cr_assert_eq(a->block->start, b->block->start, "block %lu", b->index);
		cr_assert_eq(a->block->kind, b->block->kind);
		cr_assert_eq(a->ran, b->ran, "block %lu", b->index);
		cr_assert_eq(a->block, trail_table_block(a->table, a->id));
	} else {
		cr_assert_eq(a->between->event, b->between->event);
		cr_assert_eq(a->between->left, b->between->left);
	}
}

Test(paths, are_walked_block_by_block_both_ways)
{
	struct trail_cursor a, b;
	struct trail_item one, other;
	uint64_t items = 0;

	walk_both(PATHS, bases);
	cr_expect_gt(with.trails.spaces[0].table.paths, 100u);
	cr_expect_eq(without.trails.spaces[0].table.paths, 0u);
	cr_expect_lt(with.sample.now, without.sample.now);
	a = (struct trail_cursor){ .path = &with.trails.paths[0] };
	b = (struct trail_cursor){ .path = &without.trails.paths[0] };
	for (; trail_next(&a, &one); items++) {
		cr_assert_eq(trail_next(&b, &other), 1);
		same(&one, &other);
	}
	cr_assert_eq(trail_next(&b, &other), 0);
	for (; trail_previous(&a, &one); items--) {
		cr_assert_eq(trail_previous(&b, &other), 1);
		same(&one, &other);
	}
	cr_assert_eq(items, 0);
}

Test(paths, are_entered_at_any_block)
{
	struct trail_cursor a = { 0 }, b = { 0 };
	struct trail_item one, other;
	uint64_t seed = 5;

	walk_both(PATHS, bases);
	a.path = &with.trails.paths[0];
	b.path = &without.trails.paths[0];
	for (int i = 0; i < 20000; i++) {
		uint64_t index = i < 10000 ? (uint64_t)i : sample_random(&seed) % a.path->blocks;
		int is_back = i & 1;

		trail_seek(&a, index);
		trail_seek(&b, index);
		for (int j = 0; j < 3; j++) {
			int more = is_back ? trail_previous(&a, &one) : trail_next(&a, &one);

			cr_assert_eq(is_back ? trail_previous(&b, &other) : trail_next(&b, &other),
				     more);
			if (more)
				same(&one, &other);
		}
	}
}

/* Whatever part of a path begins or ends a stretch. */
Test(paths, are_cut_anywhere)
{
	enum { SOME = 40 };
	uint64_t blocks;

	walk_both(SOME, bases);
	blocks = with.trails.paths[0].blocks;
	for (uint64_t from = 0; from <= blocks; from++)
		for (uint64_t to = from; to <= blocks; to++) {
			const struct trail_bound first = { TRAIL_BOUND_BLOCK, from },
						 last = { TRAIL_BOUND_BLOCK, to };
			struct trail_item one, other;
			struct trail_range a, b;
			struct trail_cursor cursor = { 0 }, back;
			struct trail_path cut;

			trail_range_init(&a, with.reader, &with.trails.paths[0], &first, &last);
			trail_range_init(&b, without.reader, &without.trails.paths[0], &first,
					 &last);
			cr_assert_eq(trail_range_cut(&a, &cut), 0);
			cursor.path = &cut;
			while (trail_range_next(&b, &other)) {
				back = cursor;
				trail_range_uncut(&a, &back);
				cr_assert_eq(trail_next(&cursor, &one), 1, "%lu to %lu", from, to);
				cr_assert_eq(one.index, other.index);
				same(&one, &other);
				cr_assert_eq(trail_next(&back, &one), 1);
				same(&one, &other);
			}
			trail_seek(&cursor, from + (to - from) / 2);
			trail_seek(&b.cursor, from + (to - from) / 2);
			if (a.first < a.end && trail_previous(&b.cursor, &other) &&
			    other.index >= from && other.block) {
				cr_assert_eq(trail_previous(&cursor, &one), 1);
				same(&one, &other);
			}
			free(cut.parts);
		}
}

/*
 * The meaning of an origin's number is defined again in each space; blocks that a thread has yet to
 * write are of the space before.
 */
Test(paths, are_known_in_the_space_that_there_is)
{
	struct trail_cursor a, b;
	struct trail_item one, other;
	const uint64_t same_place[2] = { 0x1000, 0x1000 };

	with.sample.trail.table_bytes_max = 12000;
	walk_both(PATHS, same_place);
	cr_expect_gt(with.trails.space_count, 10u);
	a = (struct trail_cursor){ .path = &with.trails.paths[0] };
	b = (struct trail_cursor){ .path = &without.trails.paths[0] };
	while (trail_next(&a, &one)) {
		cr_assert_eq(trail_next(&b, &other), 1);
		same(&one, &other);
	}
}

Test(paths, of_the_same_blocks_are_one)
{
	const struct trail_source_block block = { .entry = { .start = 0x1000,
							     .target = 0x1000,
							     .bytes = 2,
							     .instructions = 1,
							     .kind = TRAIL_JUMP } };
	struct trail_source_block blocks[300];
	struct trail_source_path path = { 5, 0, 3, blocks };

	for (int i = 0; i < 300; i++)
		blocks[i] = block;
	for (int i = 0; i < 3; i++, path.number++)
		cr_assert_eq(
			trail_thread_path(&with.sample.trail, &with.sample.thread, &path, 2000), 0);
	cr_expect_eq(with.sample.trail.now.table.count, 2u);
	/* one block is no path, and of more than a path may have, each is written alone */
	path.count = 1;
	cr_assert_eq(trail_thread_path(&with.sample.trail, &with.sample.thread, &path, 2000), 0);
	path.count = 300;
	path.number = 100;
	cr_assert_eq(trail_thread_path(&with.sample.trail, &with.sample.thread, &path, 2000), 0);
	cr_expect_eq(with.sample.trail.now.table.count, 2u);
	cr_expect_eq(read_back(&with)->blocks, 310u);
	cr_expect_eq(trail_threads_find(&with.trails.threads, 0, TID)->blocks, 310u);
	sample_walk(&without.sample, 1, 1, 0, bases);
	read_back(&without);
}

/* A wrong origin is recognised when a trail is read, as it is block by block. */
Test(paths, that_lead_nowhere_go_block_by_block)
{
	struct trail_source_block blocks[2] = {
		{ { .start = 0x1000,
		    .target = 0x2000,
		    .bytes = 2,
		    .instructions = 1,
		    .kind = TRAIL_JUMP },
		  NULL },
		{ { .start = 0x3000, .bytes = 1, .instructions = 1, .kind = TRAIL_RETURN }, NULL },
	};
	const struct trail_source_path path = { 1, 0, 2, blocks };

	for (int i = 0; i < 2; i++)
		cr_assert_eq(
			trail_thread_path(&with.sample.trail, &with.sample.thread, &path, 2000), 0);
	sample_trail_thread_end(&with.sample);
	sample_trail_close(&with.sample);
	cr_assert_eq(trace_reader_open(&with.reader, with.sample.folder), 0);
	cr_assert_eq(trails_read(&with.trails, with.reader), 0);
	cr_assert_eq(with.trails.paths[0].blocks, 1u);
	cr_expect_str_eq(with.trails.paths[0].damage, "a block that can't follow the one before");
	sample_walk(&without.sample, 1, 1, 0, bases);
	read_back(&without);
}
