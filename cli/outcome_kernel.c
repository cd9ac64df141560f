/* SPDX-License-Identifier: MIT */
#include "cli/outcome_kernel.h"

#include "base/tracefs.h"
#include "record/kernel/kernel_events.h"

#include <stdio.h>
#include <unistd.h>

void outcome_kernel(const struct wm_session *session)
{
	struct kernel_coverage coverage;

	kernel_covered(session, &coverage);
	if (coverage.has_switches && !coverage.has_wakes)
		fprintf(stderr, "waymark: switches have no wakes%s: %s\n",
			coverage.has_places ? ", nor what a thread waits for"
					    : ", places, nor what a thread waits for",
			!geteuid() && !tracefs_events()
				? tracefs_missing()
				: "that takes root, or a readable /sys/kernel/tracing with kernel.perf_event_paranoid at -1");
	if (coverage.excludes_kernel)
		fputs("waymark: kernel.perf_event_paranoid allows user space alone: what happens in the kernel is left out\n",
		      stderr);
}

void outcome_kernel_end(const struct wm_session *session)
{
	struct kernel_coverage coverage;

	kernel_covered(session, &coverage);
	if (coverage.throttled)
		fprintf(stderr,
			"waymark: the kernel stopped an event for a while, %llu time%s, as it came too often: take a lower freq, or a larger period\n",
			(unsigned long long)coverage.throttled, coverage.throttled == 1 ? "" : "s");
	if (coverage.is_doubtful)
		fputs("waymark: a process could not be stopped: kernel events of threads that it started just then may be missing\n",
		      stderr);
	if (coverage.unnamed)
		fprintf(stderr,
			"waymark: functions of %llu process%s have no names: the trace has room for 4,096 that no agent reports\n",
			(unsigned long long)coverage.unnamed, coverage.unnamed == 1 ? "" : "es");
	if (coverage.privileged)
		fprintf(stderr,
			"waymark: %llu process%s executed a program with more privileges (setuid): the kernel ended %s events there; -a records them\n",
			(unsigned long long)coverage.privileged,
			coverage.privileged == 1 ? "" : "es",
			coverage.privileged == 1 ? "its" : "their");
	if (coverage.cpus_back)
		fprintf(stderr, "waymark: %u CPU%s came online meanwhile\n", coverage.cpus_back,
			coverage.cpus_back == 1 ? "" : "s");
}
