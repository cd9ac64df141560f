/* SPDX-License-Identifier: MIT */
/* The clocks that events are stamped with, as read from outside. Any thread. */
#ifndef PROCESS_TICKS_H
#define PROCESS_TICKS_H

#include <stdint.h>

struct ticks_point {
	uint64_t ticks, monotonic_ns, monotonic_raw_ns, realtime_ns;
};

/* All clocks at one moment; `clock` (enum store_clock) says which one gives the ticks. */
void ticks_now(uint32_t clock, struct ticks_point *point);

/* CLOCK_MONOTONIC. */
uint64_t ticks_monotonic_ns(void);

/*
 * The rate of a clock: 1,000,000,000 for CLOCK_MONOTONIC; for the TSC the rate that the kernel
 * exports through perf, or else a measurement of 2 ms, kept for this process and those that it
 * forks. Never 0.
 */
uint64_t ticks_hz(uint32_t clock);

/* The rate between two points, for a better figure after a long time; 0 when they are too near. */
uint64_t ticks_hz_between(const struct ticks_point *from, const struct ticks_point *to);

#endif
