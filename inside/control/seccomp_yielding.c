/* SPDX-License-Identifier: MIT */
#include "inside/control/seccomp_yielding.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "inside/detour/janitor.h"
#include "inside/marker/careful.h"
#include "inside/marker/cost.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/seccomp_yield.h"
#include "inside/store/event_store.h"
#include "inside/watch/watch.h"

#include <waymark/error.h>

#include <errno.h>

#define LOCK_MS 200
#define QUIESCE_MS 200
#define HANDLED_TRIES 20
#define HANDLED_PAUSE_NS 500000

static uint32_t begun; /* what the tools were notified for */

/* What came before may be in hand still, by threads that are to have the filter, too. */
static int nobody_handles(const struct text *text)
{
	for (int tries = 0; janitor_look(text) == -EAGAIN; tries++) {
		if (tries == HANDLED_TRIES)
			return 0;
		kernel_sleep_ns(HANDLED_PAUSE_NS);
	}
	return 1;
}

void seccomp_yielding_serve(const struct text *text)
{
	uint32_t now;
	int is_over;

	if (!seccomp_yield_is_pending(&now) || lock_take(&agent_lock, LOCK_MS))
		return;
	if (begun != now) {
		DEBUG_TRACE("agent/control", "the program sets a filter: for all %d",
			    seccomp_yield_is_for_all());
		begun = now;
		careful_allow(0);
		cost_allow(0);
		watch_yield(seccomp_yield_is_for_all() == -WM_E_CAPABILITIES ? -WM_E_CAPABILITIES
									     : -WM_E_TRAP_FILTER);
	}
	is_over = !watch_any_live() && (!seccomp_yield_is_for_all() || nobody_handles(text));
	lock_release(&agent_lock);
	/* a hit of another thread may be about to make a system call */
	if (is_over && seccomp_yield_is_for_all())
		is_over = !store_quiesce(QUIESCE_MS, 0);
	if (is_over)
		seccomp_yield_done(now);
}

void seccomp_yielding_forked(void)
{
	begun = 0;
	seccomp_yield_forked();
}
