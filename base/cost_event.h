/* SPDX-License-Identifier: MIT */
/* The kernel's event for a count of the processor (abi/cost.h), as agent and tool open it. */
#ifndef BASE_COST_EVENT_H
#define BASE_COST_EVENT_H

#include "abi/cost.h"

#include <linux/perf_event.h>

/*
 * In user space alone, which every user may count, where the kernel lets users count at all. Not
 * inherited: a thread's counter is its own.
 */
static inline struct perf_event_attr cost_event_attr(unsigned int kind)
{
	static const unsigned char configs[COST_COUNTERS] = {
		[COST_CYCLES - COST_CYCLES] = PERF_COUNT_HW_CPU_CYCLES,
		[COST_INSTRUCTIONS - COST_CYCLES] = PERF_COUNT_HW_INSTRUCTIONS,
		[COST_CACHE_REFERENCES - COST_CYCLES] = PERF_COUNT_HW_CACHE_REFERENCES,
		[COST_CACHE_MISSES - COST_CYCLES] = PERF_COUNT_HW_CACHE_MISSES,
		[COST_BRANCHES - COST_CYCLES] = PERF_COUNT_HW_BRANCH_INSTRUCTIONS,
		[COST_BRANCH_MISSES - COST_CYCLES] = PERF_COUNT_HW_BRANCH_MISSES,
	};

	return (struct perf_event_attr){
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(struct perf_event_attr),
		.config = configs[kind - COST_CYCLES],
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
}

#endif
