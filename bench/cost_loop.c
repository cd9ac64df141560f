/* SPDX-License-Identifier: MIT */
/* The cost of a hit with counts, of several kinds side by side in one run: bench/cost.sh. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <waymark/marker.h>

#define HITS 2000
#define ROUNDS 300

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#define LOOP(name)                                                                                 \
	static __attribute__((noinline)) double name##_ns(void)                                    \
	{                                                                                          \
		double begun = now_ns();                                                           \
                                                                                                   \
		for (uint64_t i = 0; i < HITS; i++)                                                \
			WAYMARK(cost, name, i);                                                    \
		return (now_ns() - begun) / HITS;                                                  \
	}
LOOP(none)
LOOP(clock)
LOOP(faults)
LOOP(both)

static int by_size(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* In turns, so that whatever else runs concerns all alike. */
int main(void)
{
	static double (*const loops[])(void) = { none_ns, clock_ns, faults_ns, both_ns };
	static const char *const names[] = { "none", "task-clock", "page-faults", "both" };
	static double ns[4][ROUNDS];

	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < 4; i++)
			ns[i][round] = loops[i]();
	for (int i = 0; i < 4; i++) {
		qsort(ns[i], ROUNDS, sizeof ns[i][0], by_size);
		printf("%-12s median %7.1f ns  least %7.1f ns  %5.1f x\n", names[i],
		       ns[i][ROUNDS / 2], ns[i][0], ns[i][ROUNDS / 2] / ns[0][ROUNDS / 2]);
	}
	return 0;
}
