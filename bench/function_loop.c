/* SPDX-License-Identifier: MIT */
/*
 * What a function tracer adds to a call of a function of two arguments and a result, which it
 * instruments at compile time (-pg): the call's time less that of the same function without. Prints
 * `raw hit NS`, and `raw calls N`.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure.h"

uint64_t function_traced(uint64_t a, uint64_t b);
uint64_t function_plain(uint64_t a, uint64_t b);

#define QUIET __attribute__((noipa, no_instrument_function))

__attribute__((noipa)) uint64_t function_traced(uint64_t a, uint64_t b)
{
	return a * 3 + b;
}

QUIET uint64_t function_plain(uint64_t a, uint64_t b)
{
	return a * 3 + b;
}

QUIET static double time_one(uint64_t (*function)(uint64_t a, uint64_t b), uint64_t count)
{
	uint64_t start = measure_cpu_ns(), last = 0;
	static volatile uint64_t sink;

	for (uint64_t i = 0; i < count; i++)
		last = function(i, last);
	start = measure_cpu_ns() - start;
	sink = last;
	(void)sink;
	return (double)start / (double)count;
}

QUIET int main(int argc, char **argv)
{
	static double traced[MEASURE_RUNS_MAX], plain[MEASURE_RUNS_MAX];
	double calls = argc > 1 ? strtod(argv[1], NULL) : 2e5;
	uint64_t count = (uint64_t)(calls * measure_scale()) + 1000;
	unsigned int runs = measure_runs(5);

	measure_pin(measure_cpus() - 1);
	for (unsigned int run = 0; run < runs; run++) {
		traced[run] = time_one(function_traced, count);
		plain[run] = time_one(function_plain, count);
	}
	printf("raw hit %.4f\nraw calls %llu\n",
	       measure_median(traced, runs) - measure_median(plain, runs),
	       (unsigned long long)(runs * count));
	return 0;
}
