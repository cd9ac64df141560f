/* SPDX-License-Identifier: MIT */
/*
 * A program of a thousand functions many_*() and a hundred threads that call them. One thread
 * measures how long it was stopped. The page of a file that the program shares with the bench that
 * arms the functions.
 */
#ifndef BENCH_FUNCTIONS_H
#define BENCH_FUNCTIONS_H

#include <stdint.h>

#define MANY __attribute__((noipa))
#define MANY_COUNT 1000
#define THREADS 100

struct watched {
	uint32_t ready, stop;
	/* that the watching thread stood still, beyond its sleep; set to 0 by the bench */
	uint64_t longest_ns;
	uint64_t wakeups;
	uint64_t wrong; /* results */
};

extern uint64_t (*const many[MANY_COUNT])(uint64_t a, uint64_t b);

#endif
