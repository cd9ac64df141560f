/* SPDX-License-Identifier: MIT */
#include "branch/soft/soft_clock.h"

#include "abi/page.h"

#define NS_PER_S 1000000000u

void soft_clock_init(struct soft_clock *clock)
{
	clock->hz = ticks_hz(STORE_CLOCK_TSC);
	ticks_now(STORE_CLOCK_TSC, &clock->from);
	clock->now_ns = clock->from.monotonic_ns;
}

void soft_clock_look(struct soft_clock *clock)
{
	struct ticks_point now;
	uint64_t hz;

	ticks_now(STORE_CLOCK_TSC, &now);
	clock->now_ns = now.monotonic_ns;
	hz = ticks_hz_between(&clock->from, &now);
	if (hz)
		clock->hz = hz;
}

uint64_t soft_clock_ns(const struct soft_clock *clock, uint64_t ticks)
{
	int64_t since = (int64_t)(ticks - clock->from.ticks);
	__int128 ns = (__int128)since * NS_PER_S / (__int128)clock->hz +
		      (__int128)clock->from.monotonic_ns;

	if (ns < 0)
		return 0;
	return ns > clock->now_ns ? clock->now_ns : (uint64_t)ns;
}
