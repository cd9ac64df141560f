/* SPDX-License-Identifier: MIT */
#include "record/doctor/doctor.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct machine machine;
static struct check check;

static void answer(enum trial trial, enum trial_state state, int error)
{
	machine.trials[trial].state = (uint8_t)state;
	machine.trials[trial].error = error;
}

static void begin(void)
{
	for (int i = 0; i < TRIAL_COUNT; i++)
		answer((enum trial)i, TRIAL_WORKS, 0);
}

TestSuite(look, .init = begin);

/* Its state, and words that are in `found` and in `change`; "" of `change`: nothing is there. */
static void expect(enum check_state state, const char *found, const char *change)
{
	cr_expect_str_eq(check_state_name(check.state), check_state_name(state), "%s", check.found);
	cr_expect(strstr(check.found, found), "%s", check.found);
	cr_expect(*change ? strstr(check.change, change) != NULL : !check.change[0], "%s",
		  check.change);
}

static void look(enum trial trial)
{
	check = (struct check){ 0 };
	doctor_look_trial(&check, trial, &machine);
}

Test(look, working_trial_is_fine)
{
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_FINE, "a store to 1, 2, 4 or 8 bytes fires", "");
	cr_expect(!strstr(check.found, "breakpoint-write"), "%s", check.found);
	cr_expect(check.is_basic);
}

Test(look, failing_trial_is_absent_or_limited)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_FAILS, 0);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_ABSENT, "a store does not fire it", "record branches");
	cr_expect(check_is_lack(&check));
	answer(TRIAL_INT80, TRIAL_FAILS, 0);
	look(TRIAL_INT80);
	expect(CHECK_LIMITED, "raises a signal", "");
	cr_expect(!check_is_lack(&check));
}

Test(look, untried_trial_is_unknown_and_lacks)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -EACCES);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_UNKNOWN, "EACCES", "sysctl kernel.perf_event_paranoid=2");
	cr_expect(check_is_lack(&check));
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -ENOSPC);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_UNKNOWN, "ENOSPC", "end the programs");
}

Test(look, cached_trial_without_permission_is_unknown)
{
	answer(TRIAL_PERF_USER, TRIAL_FAILS, -EACCES);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_UNKNOWN, "not in this process: perf-user", "perf_event_paranoid=2");
	/* a filter kills the trial */
	answer(TRIAL_PERF_USER, TRIAL_UNKNOWN, -ECANCELED);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(CHECK_UNKNOWN, "not in this process: perf-user", "");
	look(TRIAL_INT80);
	expect(CHECK_FINE, "", "");
}

Test(look, refused_call_names_filter)
{
	answer(TRIAL_PERF_USER, TRIAL_FAILS, -EPERM);
	look(TRIAL_PERF_USER);
	expect(CHECK_ABSENT, "no event of user code", "perf_event_paranoid=2");
	machine.is_filtered = 1;
	look(TRIAL_PERF_USER);
	expect(CHECK_ABSENT, "under a seccomp filter", "allow the call in the filter");
	answer(TRIAL_MEMFD, TRIAL_FAILS, -EFBIG);
	look(TRIAL_MEMFD);
	expect(CHECK_ABSENT, "no shared memory", "ulimit -f unlimited");
}

Test(look, every_trial_is_in_one_area)
{
	static const char *const areas[] = { "clock",	"code", "permissions", "trails",
					     "watches", "perf", "limits" };
	struct check_list list = { 0 };

	for (size_t i = 0; i < sizeof(areas) / sizeof(*areas); i++)
		doctor_look_trials(&list, &machine, areas[i]);
	cr_assert_eq(list.count, (size_t)TRIAL_COUNT);
	cr_expect_eq(check_lacks(&list), 0);
	check_list_release(&list);
}

/* ---- debug registers ---- */

static void look_count(int count)
{
	check = (struct check){ 0 };
	doctor_look_registers(&check, count, gettid(), &machine);
}

Test(look, registers_that_fire)
{
	look_count(4);
	expect(CHECK_FINE, "4 of the processor's 4 can be had", "");
	look_count(1);
	expect(CHECK_LIMITED, "1 of the processor's 4 can be had; others hold 3", "end what holds");
	look_count(0);
	expect(CHECK_ABSENT, "0 of the processor's 4", "end what holds");
	look_count(-EACCES);
	expect(CHECK_ABSENT, "perf_event_open(2): EACCES", "sysctl kernel.perf_event_paranoid=2");
}

Test(look, registers_are_never_fine_unless_they_fire)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_FAILS, 0);
	look_count(4);
	expect(CHECK_ABSENT, "breakpoint-write: the machine accepts", "record branches");
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -ETIMEDOUT);
	look_count(4);
	expect(CHECK_UNKNOWN, "timed out", "again");
	look_count(2);
	expect(CHECK_UNKNOWN, "timed out", "again");
}

/* ---- words ---- */

Test(look, words_are_joined_and_cut)
{
	char long_words[CHECK_BYTES];

	check = (struct check){ 0 };
	check_say(&check, CHECK_FINE, "one");
	check_say(&check, CHECK_FINE, "%s", "");
	check_say(&check, CHECK_FINE, "two");
	check_change(&check, "");
	expect(CHECK_FINE, "one; two", "");
	memset(long_words, 'x', sizeof(long_words));
	long_words[sizeof(long_words) - 1] = '\0';
	check_say(&check, CHECK_FINE, "%s", long_words);
	check_say(&check, CHECK_FINE, "%s", long_words);
	cr_expect_eq(strlen(check.found), CHECK_BYTES - 1);
}
