/* SPDX-License-Identifier: MIT */
#include "trace/trail/pair.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

struct thread {
	uint32_t process, tid;
	uint64_t begin;
	const char *comm;
};

static struct trace_stream streams[2][THREADS];
static struct trail_path paths[2][THREADS];
static struct trails trails[2];

static void make(int side, const struct thread threads[THREADS])
{
	trails[side].paths = paths[side];
	trails[side].path_count = 0;
	for (int i = 0; i < THREADS && threads[i].comm; i++) {
		struct trace_stream *stream = &streams[side][i];

		stream->process = threads[i].process;
		stream->tid = threads[i].tid;
		stream->begin_ticks = threads[i].begin;
		strcpy(stream->comm, threads[i].comm);
		paths[side][i].stream = stream;
		trails[side].path_count++;
	}
}

/* The pairs are those tids, 0 for none; in that order. */
static void expect(const uint32_t tids[][2], size_t count)
{
	struct trail_pair *pairs;
	size_t found;

	cr_assert_eq(trails_pair(&pairs, &found, &trails[0], &trails[1]), 0);
	cr_assert_eq(found, count);
	for (size_t i = 0; i < count; i++)
		for (int side = 0; side < 2; side++) {
			const struct trail_path *path = pairs[i].of[side];

			cr_expect_eq(path ? path->stream->tid : 0, tids[i][side], "pair %zu", i);
		}
	free(pairs);
}

Test(pair, goes_by_the_order_of_coming_and_not_by_number)
{
	make(0,
	     (struct thread[THREADS]){ { 0, 10, 1, "x" }, { 0, 11, 5, "w" }, { 0, 12, 7, "w" } });
	make(1,
	     (struct thread[THREADS]){ { 0, 80, 1, "x" }, { 0, 81, 9, "w" }, { 0, 99, 4, "w" } });
	expect((const uint32_t[][2]){ { 10, 80 }, { 11, 99 }, { 12, 81 } }, 3);
}

Test(pair, goes_by_the_order_of_making_where_trails_tell_it)
{
	struct trail_part makes[2][4];
	static const uint32_t made[2][4] = { { 11, 12, 13, 14 }, { 23, 22, 99, 21 } };

	for (int side = 0; side < 2; side++)
		for (int i = 0; i < 4; i++)
			makes[side][i] = (struct trail_part){
				.between = { .event = TRAIL_FORK, .values = { made[side][i] } }
			};
	make(0,
	     (struct thread[THREADS]){
		     { 0, 10, 1, "w" }, { 0, 11, 5, "w" }, { 0, 12, 7, "w" }, { 0, 13, 9, "w" } });
	make(1,
	     (struct thread[THREADS]){
		     { 0, 20, 1, "w" }, { 0, 21, 5, "w" }, { 0, 22, 7, "w" }, { 0, 23, 9, "w" } });
	for (int side = 0; side < 2; side++) {
		paths[side][0].parts = makes[side];
		paths[side][0].count = 4;
	}
	expect((const uint32_t[][2]){ { 10, 20 }, { 11, 23 }, { 12, 22 }, { 13, 21 } }, 4);
	for (int side = 0; side < 2; side++)
		paths[side][0] = (struct trail_path){ 0 };
}

Test(pair, prefers_the_same_name_in_the_same_process)
{
	make(0,
	     (struct thread[THREADS]){ { 0, 10, 1, "a" }, { 0, 11, 2, "b" }, { 3, 12, 3, "b" } });
	make(1,
	     (struct thread[THREADS]){ { 0, 20, 1, "b" }, { 0, 21, 2, "a" }, { 1, 22, 3, "b" } });
	expect((const uint32_t[][2]){ { 10, 21 }, { 11, 20 }, { 12, 22 } }, 3);
}

Test(pair, takes_another_name_rather_than_none_and_tells_who_is_left)
{
	make(0, (struct thread[THREADS]){ { 0, 10, 1, "a" } });
	make(1, (struct thread[THREADS]){ { 0, 20, 1, "c" }, { 0, 21, 2, "d" } });
	expect((const uint32_t[][2]){ { 10, 20 }, { 0, 21 } }, 2);
	make(0, (struct thread[THREADS]){ { 0, 10, 1, "a" }, { 1, 11, 2, "b" } });
	make(1, (struct thread[THREADS]){ { 0, 20, 1, "a" } });
	expect((const uint32_t[][2]){ { 10, 20 }, { 11, 0 } }, 2);
}
