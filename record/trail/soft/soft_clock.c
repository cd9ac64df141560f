/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_clock.h"

#include "abi/page.h"

#define NS_PER_S 1000000000u
#define JUMP_NS 1e6
#define JUMP_PART 500

void soft_clock_init(struct soft_clock *clock)
{
	clock->hz = ticks_hz(STORE_CLOCK_TSC);
	ticks_now(STORE_CLOCK_TSC, &clock->from);
	clock->last = clock->from;
}

/* By more than adjtimex(2) changes a rate, and than a look may be off. */
static int has_jumped(const struct soft_clock *clock, const struct ticks_point *now)
{
	double ns = (double)(now->monotonic_ns - clock->last.monotonic_ns);
	double ticks = (double)(int64_t)(now->ticks - clock->last.ticks);
	double off_ns = ticks * NS_PER_S / (double)clock->hz - ns;

	return off_ns > JUMP_NS + ns / JUMP_PART || off_ns < -(JUMP_NS + ns / JUMP_PART);
}

void soft_clock_take(struct soft_clock *clock, const struct ticks_point *now)
{
	uint64_t hz = ticks_hz_between(&clock->from, now);

	if (has_jumped(clock, now)) {
		clock->slept_ns = clock->last.monotonic_ns;
		clock->from = *now;
	} else if (hz) {
		clock->hz = hz;
	}
	clock->last = *now;
}

void soft_clock_look(struct soft_clock *clock)
{
	struct ticks_point now;

	ticks_now(STORE_CLOCK_TSC, &now);
	soft_clock_take(clock, &now);
}

uint64_t soft_clock_ns(const struct soft_clock *clock, uint64_t ticks)
{
	int64_t since = (int64_t)(ticks - clock->from.ticks);
	__int128 ns = (__int128)since * NS_PER_S / (__int128)clock->hz +
		      (__int128)clock->from.monotonic_ns;

	if (clock->slept_ns && ns < clock->slept_ns) /* before it slept: it is no later than then */
		return clock->from.monotonic_ns;
	if (ns < 0)
		return 0;
	return ns > clock->last.monotonic_ns ? clock->last.monotonic_ns : (uint64_t)ns;
}
