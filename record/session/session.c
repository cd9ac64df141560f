/* SPDX-License-Identifier: MIT */
/* What all parts of a session use of it. */
#include "record/session/session.h"

#include "target/claim/ledger.h"
#include "target/process/call.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct ledger *session_ledger(struct wm_session *session)
{
	if (!session->ledger)
		ledger_new(&session->ledger);
	return session->ledger;
}

int session_fail(struct wm_session *session, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->detail, sizeof(session->detail), format, arguments);
	va_end(arguments);
	return error;
}

int session_call_refused(struct wm_session *session)
{
	if (!session)
		return -EINVAL;
	if (session->owner != getpid())
		return -ECHILD;
	return session->reading ? session_fail(session, -EDEADLK, "in a callback") : 0;
}

_Static_assert(WM_POLICY_CYCLIC - WM_POLICY_DISCARD == (int)STORE_CYCLIC &&
		       WM_POLICY_BLOCK - WM_POLICY_DISCARD == (int)STORE_BLOCK &&
		       WM_POLICY_NOTIFY - WM_POLICY_DISCARD == (int)STORE_NOTIFY,
	       "the agent has the same policies in the same order, without a default");

enum store_policy session_store_policy(const struct wm_session *session)
{
	return (enum store_policy)(session->options.policy - WM_POLICY_DISCARD);
}

uint64_t session_hz(const struct wm_session *session, uint32_t clock)
{
	return clock == STORE_CLOCK_TSC ? session->tsc_hz : 1000000000u;
}

const char *wm_session_detail(const struct wm_session *session)
{
	return session ? session->detail : "";
}
