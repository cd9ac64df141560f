/* SPDX-License-Identifier: MIT */
/* A step's wait, and what it says of each process and listener. */
#ifndef SESSION_DOZE_H
#define SESSION_DOZE_H

#include <stdint.h>

struct wm_session;

/*
 * Wait until a process or a listener has something, at most so long. Fills in their is_still and is_alive,
 * so that a step makes no system call for those that have nothing: with many processes those calls were
 * most of a step. wm_session_wake() and a signal's handler end the wait and set is_woken.
 */
void session_doze(struct wm_session *session, uint64_t wait_ns);

/* Have the epoll descriptor, and the caller's (pollable.h), wait on all that there is now. */
void session_doze_gather(struct wm_session *session);

#endif
