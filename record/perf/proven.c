/* SPDX-License-Identifier: MIT */
#include "record/perf/object_own.h"
#include "target/trial/trial.h"

#include <waymark/error.h>

static const enum trial of_event[] = {
	[EVENT_WRITE] = TRIAL_BREAKPOINT_WRITE,
	[EVENT_READ_WRITE] = TRIAL_BREAKPOINT_ACCESS,
	[EVENT_EXECUTE] = TRIAL_BREAKPOINT_EXECUTE,
};

int perf_sources_proven(const struct event_request *request, const struct event_source *sources,
			struct detail detail)
{
	int is_cpu = request->scope == EVENT_CPUS || request->scope == EVENT_SYSTEM, err = 0;

	for (unsigned int i = 0; i < request->source_count && !err; i++)
		err = trial_need(of_event[sources[i].kind], -WM_E_BREAKPOINT_DEAD, detail);
	if (!err && is_cpu)
		err = trial_need(TRIAL_BREAKPOINT_CPU, -WM_E_BREAKPOINT_DEAD, detail);
	if (!err && request->flags & EVENT_SIGNAL)
		err = trial_need(TRIAL_BREAKPOINT_SIGNAL, -WM_E_BREAKPOINT_DEAD, detail);
	return err;
}
