/* SPDX-License-Identifier: MIT */
#include "inside/control/quiet.h"

#include "inside/control/detours.h"
#include "inside/control/wait.h"
#include "inside/control/agent_session.h"
#include "inside/control/report.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/detour/janitor.h"
#include "inside/runtime/lock.h"
#include "inside/store/event_store.h"
#include "inside/watch/watch.h"

#include <errno.h>

#define STRANDED_MS 100 /* in a hit for so long: see whether that is so */
#define TICK_LOOK_NS UINT64_C(500000000)

/*
 * A thread that doesn't leave its hit may have left it long ago, by a jump. No further hit of that
 * thread shows it, because nothing is armed any more.
 */
int quiet_wait(unsigned int lane, const struct text *text, unsigned int timeout_ms)
{
	static uint64_t looked_ns;
	unsigned int wait_ms = STRANDED_MS, left_ms = timeout_ms;
	int error = store_quiet(lane, left_ms < wait_ms ? left_ms : wait_ms);

	while (error == -ETIMEDOUT && left_ms > wait_ms) {
		janitor_forget_stranded(text);
		left_ms -= wait_ms;
		error = store_quiet(lane, left_ms < wait_ms ? left_ms : wait_ms);
	}
	if (error == -ETIMEDOUT && lock_now_ns() - looked_ns >= TICK_LOOK_NS) {
		janitor_forget_stranded(text); /* for the next time */
		looked_ns = lock_now_ns();
	}
	return error;
}

int quiet_session(struct session *session, struct change *change, unsigned int timeout_ms)
{
	int error = session_patching_lock(session_text, 0), quiet;

	if (error)
		return error;
	session->is_quiet = 1;
	session->follows_modules = 0; /* until it commits again */
	wait_modules_clear(session_lane(session));
	session->set = 0;
	/* report what another tool did since the last look while the tool is still connected */
	if (session->fd >= 0 && !registry_is_frozen(session_text))
		foreign_bytes_look(session_text);
	error = registry_rule(session_text, session_lane(session), NULL, 0, 0, change);
	watch_release(session_lane(session), session->fd < 0);
	detours_let_go(session_lane(session), session_text, change);
	quiet = session->state == SESSION_OPEN || session->state == SESSION_CLOSING
			? quiet_wait(session_lane(session), session_text, timeout_ms)
			: 0;
	report_flush();
	lock_release(&agent_lock);
	return error ? error : quiet;
}
