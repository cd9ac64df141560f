/* SPDX-License-Identifier: MIT */
/* The lines about a recording's kernel events; what these lack is the test's own. */
#include "cli/outcome_kernel.h"

#include "record/kernel/kernel_events.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>

static struct kernel_coverage coverage;

void __wrap_kernel_covered(const struct wm_session *session, struct kernel_coverage *covered);

void __wrap_kernel_covered(const struct wm_session *session, struct kernel_coverage *covered)
{
	(void)session;
	*covered = coverage;
}

TestSuite(outcome_kernel, .init = cr_redirect_stderr);

Test(outcome_kernel, begin_names_what_a_privilege_would_give)
{
	outcome_kernel(NULL);
	coverage = (struct kernel_coverage){ .has_switches = 1, .has_wakes = 1 };
	outcome_kernel(NULL);
	coverage.excludes_kernel = 1;
	outcome_kernel(NULL);
	fflush(stderr);
	cr_assert_stderr_eq_str("waymark: kernel.perf_event_paranoid allows user space alone: "
				"what happens in the kernel is left out\n");
}

Test(outcome_kernel, end_counts_what_the_kernel_left_out)
{
	outcome_kernel_end(NULL);
	coverage = (struct kernel_coverage){ .throttled = 1, .cpus_back = 2, .privileged = 1 };
	outcome_kernel_end(NULL);
	coverage = (struct kernel_coverage){ .throttled = UINT64_MAX, .cpus_back = 1 };
	outcome_kernel_end(NULL);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"waymark: the kernel stopped an event for a while, 1 time, as it came too often: take a lower freq, or a larger period\n"
		"waymark: 1 process executed a program with more privileges (setuid): the kernel ended its events there; -a records them\n"
		"waymark: 2 CPUs came online meanwhile\n"
		"waymark: the kernel stopped an event for a while, 18446744073709551615 times, as it came too often: take a lower freq, or a larger period\n"
		"waymark: 1 CPU came online meanwhile\n");
}
