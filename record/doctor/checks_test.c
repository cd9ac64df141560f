/* SPDX-License-Identifier: MIT */
#include "record/doctor/doctor.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct machine machine;
static struct finding finding;

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
static void expect(enum finding_state state, const char *found, const char *change)
{
	cr_expect_str_eq(finding_state_name(finding.state), finding_state_name(state), "%s",
			 finding.found);
	cr_expect(strstr(finding.found, found), "%s", finding.found);
	cr_expect(*change ? strstr(finding.change, change) != NULL : !finding.change[0], "%s",
		  finding.change);
}

static void look(enum trial trial)
{
	finding = (struct finding){ 0 };
	trials_look_one(&finding, trial, &machine);
}

Test(look, working_trial_is_fine)
{
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_FINE, "a store to 1, 2, 4 or 8 bytes fires", "");
	cr_expect(!strstr(finding.found, "breakpoint-write"), "%s", finding.found);
	cr_expect(finding.is_basic);
}

Test(look, failing_trial_is_absent_or_limited)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_FAILS, 0);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_ABSENT, "a store does not fire it", "record branches");
	cr_expect(finding_is_lack(&finding));
	answer(TRIAL_INT80, TRIAL_FAILS, 0);
	look(TRIAL_INT80);
	expect(FINDING_LIMITED, "raises a signal", "");
	cr_expect(!finding_is_lack(&finding));
}

Test(look, untried_trial_is_unknown_and_lacks)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -EACCES);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_UNKNOWN, "EACCES", "sysctl kernel.perf_event_paranoid=2");
	cr_expect(finding_is_lack(&finding));
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -ENOSPC);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_UNKNOWN, "ENOSPC", "end the programs");
}

Test(look, cached_trial_without_permission_is_unknown)
{
	answer(TRIAL_PERF_USER, TRIAL_FAILS, -EACCES);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_UNKNOWN, "not in this process: perf-user", "perf_event_paranoid=2");
	/* a filter kills the trial */
	answer(TRIAL_PERF_USER, TRIAL_UNKNOWN, -ECANCELED);
	look(TRIAL_BREAKPOINT_WRITE);
	expect(FINDING_UNKNOWN, "not in this process: perf-user", "");
	look(TRIAL_STEP_SYSCALL);
	expect(FINDING_FINE, "", "");
}

Test(look, refused_call_names_filter)
{
	answer(TRIAL_PERF_USER, TRIAL_FAILS, -EPERM);
	look(TRIAL_PERF_USER);
	expect(FINDING_ABSENT, "no event of user code", "perf_event_paranoid=2");
	machine.is_filtered = 1;
	look(TRIAL_PERF_USER);
	expect(FINDING_ABSENT, "under a seccomp filter", "allow the call in the filter");
	answer(TRIAL_MEMFD, TRIAL_FAILS, -EFBIG);
	look(TRIAL_MEMFD);
	expect(FINDING_ABSENT, "no shared memory", "ulimit -f unlimited");
}

Test(look, every_trial_is_in_one_area)
{
	static const char *const areas[] = { "clock",	"code", "permissions", "trails",
					     "watches", "perf", "limits" };
	struct finding_list list = { 0 };

	for (size_t i = 0; i < sizeof(areas) / sizeof(*areas); i++)
		trials_look(&list, &machine, areas[i]);
	cr_assert_eq(list.count, (size_t)TRIAL_COUNT);
	cr_expect_eq(finding_lacks(&list), 0);
	finding_list_release(&list);
}

/* ---- debug registers ---- */

static void look_count(int count)
{
	finding = (struct finding){ 0 };
	doctor_look_registers(&finding, count, gettid(), &machine);
}

Test(look, registers_that_fire)
{
	look_count(4);
	expect(FINDING_FINE, "4 of the processor's 4 can be had", "");
	look_count(1);
	expect(FINDING_LIMITED, "1 of the processor's 4 can be had; others hold 3",
	       "end what holds");
	look_count(0);
	expect(FINDING_ABSENT, "0 of the processor's 4", "end what holds");
	look_count(-EACCES);
	expect(FINDING_ABSENT, "perf_event_open(2): EACCES", "sysctl kernel.perf_event_paranoid=2");
}

Test(look, registers_are_never_fine_unless_they_fire)
{
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_FAILS, 0);
	look_count(4);
	expect(FINDING_ABSENT, "breakpoint-write: the machine accepts", "record branches");
	answer(TRIAL_BREAKPOINT_WRITE, TRIAL_UNKNOWN, -ETIMEDOUT);
	look_count(4);
	expect(FINDING_UNKNOWN, "timed out", "again");
	look_count(2);
	expect(FINDING_UNKNOWN, "timed out", "again");
}

/* ---- words ---- */

Test(look, words_are_joined_and_cut)
{
	char long_words[FINDING_BYTES];

	finding = (struct finding){ 0 };
	finding_say(&finding, FINDING_FINE, "one");
	finding_say(&finding, FINDING_FINE, "%s", "");
	finding_say(&finding, FINDING_FINE, "two");
	finding_change(&finding, "");
	expect(FINDING_FINE, "one; two", "");
	memset(long_words, 'x', sizeof(long_words));
	long_words[sizeof(long_words) - 1] = '\0';
	finding_say(&finding, FINDING_FINE, "%s", long_words);
	finding_say(&finding, FINDING_FINE, "%s", long_words);
	cr_expect_eq(strlen(finding.found), FINDING_BYTES - 1);
}
