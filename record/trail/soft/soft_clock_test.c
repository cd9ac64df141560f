/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_clock.h"

#include <criterion/criterion.h>

#define HZ UINT64_C(2000000000)
#define SECOND_NS UINT64_C(1000000000)

/* A look at each tenth of a second; the TSC is at so many ticks more. */
static void look(struct soft_clock *clock, uint64_t tenth, uint64_t ahead)
{
	const struct ticks_point now = { .ticks = tenth * HZ / 10 + ahead,
					 .monotonic_ns = tenth * SECOND_NS / 10 };

	soft_clock_take(clock, &now);
}

Test(soft_clock, a_suspended_machine_moves_only_what_was_not_looked_at)
{
	struct soft_clock clock = { .hz = HZ };
	const uint64_t hour = 3600 * HZ;

	for (uint64_t tenth = 1; tenth <= 20; tenth++)
		look(&clock, tenth, 0);
	cr_expect_eq(soft_clock_ns(&clock, HZ), SECOND_NS);
	look(&clock, 21, hour);
	for (uint64_t tenth = 22; tenth <= 40; tenth++)
		look(&clock, tenth, hour);
	cr_expect_eq(soft_clock_ns(&clock, hour + 3 * HZ), 3 * SECOND_NS);
	cr_expect_eq(soft_clock_ns(&clock, hour + 9 * HZ), 4 * SECOND_NS,
		     "none is later than a look");
	/* what ran before the hour was over when the machine had woken */
	cr_expect_eq(soft_clock_ns(&clock, 2 * HZ), 21 * SECOND_NS / 10);
	cr_expect_eq(soft_clock_ns(&clock, hour + 2 * HZ + HZ / 20), 205 * SECOND_NS / 100);
}

Test(soft_clock, a_rate_that_differs_a_little_is_no_jump)
{
	struct soft_clock clock = { .hz = HZ - HZ / 1000 };

	for (uint64_t tenth = 1; tenth <= 20; tenth++)
		look(&clock, tenth, 0);
	cr_expect_eq(clock.hz, HZ);
	cr_expect_eq(clock.from.ticks, 0);
}
