/* SPDX-License-Identifier: MIT */
/*
 * The common part of the calls of waymark/session.h. None is a cancellation point: threads use the
 * caller's stack, and a call must not leave its changes to a program unfinished. In a forked child
 * the session is the parent's.
 */
#ifndef TARGET_PROCESS_CALL_H
#define TARGET_PROCESS_CALL_H

#include <pthread.h>

struct wm_session;

struct session_call {
	int cancel; /* the caller's state of cancellation */
};

static inline struct session_call session_call_begin(void)
{
	struct session_call call;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call.cancel);
	return call;
}

static inline void session_call_end(struct session_call *call)
{
	pthread_setcancelstate(call->cancel, &call->cancel);
}

/* Of the variable that holds one: it ends where its scope does. */
#define SESSION_CALL __attribute__((cleanup(session_call_end), unused))

/*
 * -EINVAL without a session; -ECHILD in a forked child of the session's process; -EDEADLK in a
 * wm_session_read() callback; or 0.
 */
int session_call_refused(struct wm_session *session);

#endif
