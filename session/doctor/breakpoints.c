/* SPDX-License-Identifier: MIT */
#include "session/doctor/breakpoints.h"

#include <linux/hw_breakpoint.h>

#define TRIES (2 * BREAKPOINTS) /* more than there are: it is the kernel that says when to stop */

int breakpoints_free(const struct machine *machine, pid_t tid, int cpu, unsigned int kind,
		     int *count)
{
	const struct machine_calls *calls = machine_calls(machine);
	static uint64_t
		words[TRIES]; /* nobody writes them: what is disabled can't fire, nor could it */
	int fds[TRIES], err = 0;

	for (*count = 0; *count < TRIES; ++*count) {
		struct perf_event_attr attr = {
			.size = sizeof(attr),
			.type = PERF_TYPE_BREAKPOINT,
			.bp_type = kind & BREAKPOINT_EXECUTE ? HW_BREAKPOINT_X : HW_BREAKPOINT_W,
			.bp_addr = (uintptr_t)&words[*count],
			.bp_len = HW_BREAKPOINT_LEN_8, /* also for code: the kernel wants sizeof(long) */
			.sample_period = 1,
			.disabled = 1,
			.exclude_kernel = !(kind & BREAKPOINT_KERNEL),
			.exclude_hv = 1,
		};

		if (kind & BREAKPOINT_SIGTRAP) {
			attr.sigtrap = 1;
			attr.remove_on_exec = 1;
		}
		fds[*count] = calls->perf_open(&attr, tid, cpu);
		if (fds[*count] < 0) {
			err = fds[*count];
			break;
		}
	}
	for (int i = 0; i < *count; i++)
		calls->perf_close(fds[i]);
	return err;
}
