/* SPDX-License-Identifier: MIT */
/* The clocks that events are stamped with, as read from outside. Any thread. */
#ifndef TARGET_PROCESS_TICKS_H
#define TARGET_PROCESS_TICKS_H

#include <stdint.h>
#include <time.h>

struct ticks_point {
	uint64_t ticks, monotonic_ns, monotonic_raw_ns, realtime_ns;
};

/* All clocks at one moment; `clock` (enum store_clock) says which one gives the ticks. */
void ticks_now(uint32_t clock, struct ticks_point *point);

uint64_t ticks_clock_ns(clockid_t id);

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

/*
 * CLOCK_MONOTONIC as ticks of the TSC. adjtimex(2) changes the rate of the first alone, so a
 * straight line between the two is off by milliseconds after an hour. This one has a corner at each
 * point that is added, and a gap where the machine was suspended: the TSC runs then. All zero:
 * without a point. One thread.
 */
struct ticks_track {
	struct ticks_point before, last;
	double rate; /* ticks per ns, of the stretch before these; 0: unknown */
};

/* A point of the TSC, later than the last. */
void ticks_track_add(struct ticks_track *track, const struct ticks_point *point);

/* The ticks at a time, which is best not after the last point. There is a point. */
uint64_t ticks_track_ticks(const struct ticks_track *track, uint64_t monotonic_ns);

/* The same for times up to now: adds a point of its own where needed. */
uint64_t ticks_track_at(struct ticks_track *track, uint64_t monotonic_ns);

#endif
