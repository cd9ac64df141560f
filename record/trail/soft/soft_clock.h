/* SPDX-License-Identifier: MIT */
/* An engine's times, of the time stamp counter, as CLOCK_MONOTONIC has them. */
#ifndef RECORD_TRAIL_SOFT_SOFT_CLOCK_H
#define RECORD_TRAIL_SOFT_SOFT_CLOCK_H

#include "target/process/ticks.h"

struct soft_clock {
	struct ticks_point from, last; /* last: where it was looked at */
	uint64_t hz;
	uint64_t slept_ns; /* the machine was suspended after this look; 0: it was not */
};

/* May take 20 ms, where the kernel does not report the rate. */
void soft_clock_init(struct soft_clock *clock);

/*
 * Look at the clocks: all that was written before has a time by now. The rate becomes better with
 * time.
 */
void soft_clock_look(struct soft_clock *clock);

/*
 * The same at a given point, later than the last one. If the machine was suspended since, times
 * count from this point on.
 */
void soft_clock_take(struct soft_clock *clock, const struct ticks_point *now);

/* No later than the last look. */
uint64_t soft_clock_ns(const struct soft_clock *clock, uint64_t ticks);

/* Ticks of that look, or later. */
static inline uint64_t soft_clock_latest(const struct soft_clock *clock)
{
	return clock->from.ticks + (UINT64_C(1) << 62);
}

#endif
