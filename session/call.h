/* SPDX-License-Identifier: MIT */
/*
 * What calls of waymark/session.h have in common. None is a cancellation point: threads use the caller's stack, and what a
 * call changes in a program must not be left halfway. In a forked child the session is the parent's.
 */
#ifndef SESSION_CALL_H
#define SESSION_CALL_H

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
 * -EINVAL without a session; -ECHILD in a forked child of the process that opened it; -EBUSY in a callback of
 * wm_session_read(); else 0.
 */
int session_call_refused(struct wm_session *session);

#endif
