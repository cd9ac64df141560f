/* SPDX-License-Identifier: MIT */
/*
 * The clocks. Program threads read none but the TSC: the other clocks at a moment are computed from
 * an anchor, a set of readings that the control side renews about four times a second.
 */
#ifndef INSIDE_STORE_CLOCK_H
#define INSIDE_STORE_CLOCK_H

#include <stdint.h>

struct clock_readings {
	uint64_t ticks; /* TSC */
	uint64_t monotonic_ns, monotonic_raw_ns, realtime_ns;
};

/* Take the first anchor and a first measure of the TSC's frequency; takes about a millisecond. */
void clock_init(void);

/* Renew the anchor. Control side. */
void clock_renew(void);

/*
 * The clocks at `ticks` of the given clock (enum store_clock). Any thread and signal context, no
 * system call.
 */
void clock_at(uint32_t clock, uint64_t ticks, struct clock_readings *readings);

/* ns per tick of the TSC, in units of 2^-32, as the last session's tool measured it: durations. */
extern uint64_t clock_ns_scale __attribute__((visibility("hidden")));
void clock_rate_set(uint64_t tsc_hz);

/* ns between two readings of the TSC; 0 if it ran back. */
static inline uint64_t clock_ns(uint64_t ticks)
{
	return (int64_t)ticks < 0 ? 0 : (uint64_t)((unsigned __int128)ticks * clock_ns_scale >> 32);
}

#endif
