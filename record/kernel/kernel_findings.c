/* SPDX-License-Identifier: MIT */
/* What a session's kernel events lack, in words. */
#include "base/tracefs.h"
#include "record/kernel/kernel_events.h"
#include "record/session/findings.h"

#include <unistd.h>

/* For want of a privilege. */
static void begin_findings(const struct kernel_coverage *coverage, struct findings *list)
{
	if (coverage->has_switches && !coverage->has_wakes)
		finding_add(
			list, "kernel-wakes", FINDING_NOTE, "switches have no wakes%s: %s",
			coverage->has_places ? ", nor what a thread waits for"
					     : ", places, nor what a thread waits for",
			!geteuid() && !tracefs_events()
				? tracefs_missing()
				: "that takes root, or a readable /sys/kernel/tracing with kernel.perf_event_paranoid at -1");
	if (coverage->excludes_kernel)
		finding_add(
			list, "kernel-excluded", FINDING_NOTE,
			"kernel.perf_event_paranoid allows user space alone: what happens in the kernel is left out");
}

static void end_findings(const struct kernel_coverage *coverage, struct findings *list)
{
	finding_counted(
		list, "kernel-throttled", coverage->throttled, "time",
		"the kernel stopped an event for a while, as it came too often: take a lower freq, or a larger period");
	if (coverage->is_doubtful)
		finding_add(
			list, "kernel-threads", FINDING_LOSS,
			"a process could not be stopped: kernel events of threads that it started just then may be missing");
	finding_counted(
		list, "kernel-unnamed", coverage->unnamed, "process",
		"without names of functions: the trace has room for 4,096 that no agent reports");
	finding_counted(
		list, "kernel-privileged", coverage->privileged, "process",
		"executed a program with more privileges (setuid): the kernel ended the events there; -a records them");
	finding_counted(list, "kernel-cpus", coverage->cpus_back, "CPU", "came online meanwhile");
}

void kernel_findings(const struct wm_session *session, int is_over, struct findings *list)
{
	struct kernel_coverage coverage;

	kernel_covered(session, &coverage);
	if (is_over)
		end_findings(&coverage, list);
	else
		begin_findings(&coverage, list);
}
