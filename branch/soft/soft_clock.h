/* SPDX-License-Identifier: MIT */
/* An engine's times, of the time stamp counter, as CLOCK_MONOTONIC has them. */
#ifndef BRANCH_SOFT_SOFT_CLOCK_H
#define BRANCH_SOFT_SOFT_CLOCK_H

#include "process/ticks.h"

struct soft_clock {
	struct ticks_point from;
	uint64_t hz, now_ns; /* now_ns: nothing is later */
};

/* May take 20 ms, where the kernel does not report the rate. */
void soft_clock_init(struct soft_clock *clock);

/*
 * Look at the clocks: all that was written before has a time by now. The rate becomes better with
 * time.
 */
void soft_clock_look(struct soft_clock *clock);

/* No later than the last look. */
uint64_t soft_clock_ns(const struct soft_clock *clock, uint64_t ticks);

/* Ticks of that look, or later. */
static inline uint64_t soft_clock_latest(const struct soft_clock *clock)
{
	return clock->from.ticks + (UINT64_C(1) << 62);
}

#endif
