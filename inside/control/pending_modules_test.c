/* SPDX-License-Identifier: MIT */
#include "inside/control/wait.h"

#include <criterion/criterion.h>

static unsigned int reported;
static uint64_t last_told;

static void on_late(unsigned int lane, uint64_t base)
{
	cr_assert_eq(lane, 1);
	reported++;
	last_told = base;
}

Test(pending, what_was_seen_is_waited_for_no_longer)
{
	wait_modules_add(1, 0x1000);
	wait_modules_add(1, 0x2000);
	cr_assert(wait_modules_pending(1));
	cr_assert(!wait_modules_pending(0));
	wait_modules_seen(1, 0x2000);
	cr_assert(wait_modules_pending(1));
	wait_modules_seen(1, 0x1000);
	cr_assert(!wait_modules_pending(1));
	wait_modules_forgive(1, on_late);
	cr_assert_eq(reported, 0);
}

Test(pending, only_more_than_before_on_what_is_awaited_is_getting_on)
{
	wait_modules_add(1, 0x1000);
	cr_assert(!wait_modules_progress(1, 0x1000, 0));
	cr_assert(wait_modules_progress(1, 0x1000, 5));
	cr_assert(!wait_modules_progress(1, 0x1000, 5));
	cr_assert(!wait_modules_progress(1, 0x1000, 4));
	cr_assert(!wait_modules_progress(1, 0x2000, 9));
	cr_assert(!wait_modules_progress(0, 0x1000, 9));
	cr_assert(wait_modules_progress(1, 0x1000, 6));
}

Test(pending, nobody_waits_for_who_is_behind_until_it_has_caught_up)
{
	wait_modules_add(1, 0x1000);
	wait_modules_add(1, 0x2000);
	wait_modules_forgive(1, on_late);
	cr_assert_eq(reported, 2);
	/* another comes to where the first was */
	wait_modules_add(1, 0x1000);
	cr_assert(!wait_modules_pending(1));
	wait_modules_seen(1, 0x1000);
	cr_assert(!wait_modules_pending(1));
	wait_modules_seen(1, 0x2000);
	cr_assert(wait_modules_pending(1), "it has caught up");
	wait_modules_seen(1, 0x1000);
	cr_assert(!wait_modules_pending(1));
	wait_modules_forgive(1, on_late);
	cr_assert_eq(reported, 2, "what it has seen is not late");
}

Test(pending, more_at_once_than_can_be_noted_are_not_waited_for)
{
	for (uint64_t i = 1; i <= 300; i++)
		wait_modules_add(1, i << 12);
	for (uint64_t i = 1; i <= 300; i++)
		wait_modules_seen(1, i << 12);
	cr_assert(!wait_modules_pending(1));
	wait_modules_add(1, 0x1000);
	wait_modules_forgive(1, on_late);
	cr_assert_eq(reported, 1);
	cr_assert_eq(last_told, 0x1000);
	wait_modules_clear(1);
	wait_modules_add(1, 0x1000);
	cr_assert(wait_modules_pending(1), "a new session is not behind");
}
