/* SPDX-License-Identifier: MIT */
/*
 * What a marker costs while no session has armed it: marker.dormant_delta_ns in a loop (the worse
 * of two bodies), marker.leaf_delta_ns in a leaf function called in a loop, each over the same code
 * without a marker, and the peers beside. A run times every layout of every way of marking, one
 * after the other; its delta is the median over layouts, the figure the median over runs.
 */
#include <stdint.h>
#include <stdio.h>

#include "bench/dormant.h"
#include "bench/measure.h"

int flag_enabled;
void flag_call(int a, uint64_t b);

static volatile uint64_t sink;

__attribute__((noipa)) void flag_call(int a, uint64_t b)
{
	sink = (uint64_t)a + b;
}

enum body { CHAIN, BLOCK, LEAF, BODIES };

static const struct way {
	const char *suffix;
	const struct bodies *bodies;
} ways[] = {
	{ "", &bodies_waymark },     { ".flag", &bodies_flag }, { ".nop5", &bodies_nop5 },
#ifdef WITH_SDT
	{ ".sdt", &bodies_sdt },
#endif
#ifdef WITH_LTTNG
	{ ".lttng", &bodies_lttng },
#endif
};

#define WAYS (sizeof ways / sizeof *ways)

__attribute__((noipa, aligned(64))) static uint64_t
leaf_loop(uint64_t (*leaf)(uint64_t a, uint64_t b), uint64_t count, uint64_t seed)
{
	for (uint64_t i = 0; i < count; i++)
		seed = leaf(seed, i);
	return seed;
}

/* Nanoseconds an iteration. */
static double time_one(const struct bodies *bodies, enum body body, int layout, uint64_t count)
{
	uint64_t start = measure_cpu_ns(), seed = start;

	switch (body) {
	case CHAIN:
		seed = bodies->chain[layout](count, seed);
		break;
	case BLOCK:
		seed = bodies->block[layout](count, seed);
		break;
	default:
		seed = leaf_loop(bodies->leaf[layout], count, seed);
		break;
	}
	start = measure_cpu_ns() - start;
	sink = seed;
	return (double)start / (double)count;
}

int main(void)
{
	static double deltas[WAYS][BODIES][MEASURE_RUNS_MAX];
	static double plain[BODIES][MEASURE_RUNS_MAX * LAYOUTS];
	uint64_t count = (uint64_t)(3e6 * measure_scale()) + 1000;
	unsigned int runs = measure_runs(15);
	char name[64];

	measure_pin(measure_cpus() - 1);
	for (unsigned int run = 0; run < runs; run++) {
		for (enum body body = 0; body < BODIES; body++) {
			double over[WAYS][LAYOUTS];

			for (int layout = 0; layout < LAYOUTS; layout++) {
				double none = time_one(&bodies_none, body, layout, count);

				plain[body][run * LAYOUTS + (unsigned int)layout] = none;
				for (size_t way = 0; way < WAYS; way++)
					over[way][layout] = time_one(ways[way].bodies, body, layout,
								     count) -
							    none;
			}
			for (size_t way = 0; way < WAYS; way++)
				deltas[way][body][run] = measure_median(over[way], LAYOUTS);
		}
	}
	for (size_t way = 0; way < WAYS; way++) {
		double chain = measure_median(deltas[way][CHAIN], runs);
		double block = measure_median(deltas[way][BLOCK], runs);

		snprintf(name, sizeof name, "marker.dormant_delta_ns%s", ways[way].suffix);
		measure_print(name, chain > block ? chain : block, "ns");
		snprintf(name, sizeof name, "marker.leaf_delta_ns%s", ways[way].suffix);
		measure_print(name, measure_median(deltas[way][LEAF], runs), "ns");
	}
	measure_print("marker.empty_chain_ns", measure_median(plain[CHAIN], (size_t)runs * LAYOUTS),
		      "ns");
	measure_print("marker.empty_block_ns", measure_median(plain[BLOCK], (size_t)runs * LAYOUTS),
		      "ns");
	measure_print("marker.empty_leaf_ns", measure_median(plain[LEAF], (size_t)runs * LAYOUTS),
		      "ns");
	return 0;
}
