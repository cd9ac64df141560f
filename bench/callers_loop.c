/* SPDX-License-Identifier: MIT */
/*
 * What a tracer adds to a function that it records with its callers: callers_loop DEPTH [CALLS]
 * calls callers_leaf() from a stack of DEPTH frames. Prints `raw call NS`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure.h"

uint64_t callers_leaf(uint64_t a, uint64_t b);

__attribute__((noipa)) uint64_t callers_leaf(uint64_t a, uint64_t b)
{
	return a * 3 + b;
}

__attribute__((noipa)) static double loop(uint64_t count)
{
	uint64_t start = measure_cpu_ns(), last = 0;
	static volatile uint64_t sink;

	for (uint64_t i = 0; i < count; i++)
		last = callers_leaf(i, last);
	start = measure_cpu_ns() - start;
	sink = last;
	(void)sink;
	return (double)start / (double)count;
}

/* No tail call: the frames are to be there. */
__attribute__((noipa)) static double descend(unsigned int depth, uint64_t count)
{
	double ns = depth ? descend(depth - 1, count) : loop(count);

	__asm__ volatile("" : : : "memory");
	return ns;
}

int main(int argc, char **argv)
{
	static double ns[MEASURE_RUNS_MAX];
	unsigned int depth = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	double calls = argc > 2 ? strtod(argv[2], NULL) : 2e5;
	uint64_t count = (uint64_t)(calls * measure_scale()) + 1000;
	unsigned int runs = measure_runs(9);

	measure_pin(measure_cpus() - 1);
	descend(depth, 1000);
	for (unsigned int run = 0; run < runs; run++)
		ns[run] = descend(depth, count);
	printf("raw call %.4f\n", measure_median(ns, runs));
	return 0;
}
