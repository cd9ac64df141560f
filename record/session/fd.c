/* SPDX-License-Identifier: MIT */
/* The descriptor that a caller's event loop polls for a session. */
#include "record/session/poll.h"
#include "record/session/session.h"
#include "target/process/call.h"
#include "target/process/pollable.h"

void session_pollable_update(struct wm_session *session)
{
	if (!session->pollable)
		return;
	/* without a process that has ended, which would stay readable */
	session_poll_gather(session);
	pollable_take(session->pollable);
	if (session_awaited(session))
		session->is_end_told = 0;
	pollable_tick(session->pollable, (session->running && !session->is_end_told) ||
						 session->is_woken || session_has_unread(session));
}

int wm_session_fd(struct wm_session *session)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = session_call_refused(session);

	if (err)
		return err;
	if (!session->pollable) {
		err = pollable_new(&session->pollable);
		if (err)
			return session_fail(session, err, "a descriptor to poll");
		session->pollable_epoll = -1;
		session_pollable_update(session);
	}
	return session->pollable->fd;
}
