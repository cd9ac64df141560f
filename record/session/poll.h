/* SPDX-License-Identifier: MIT */
/* The wait of a step, and what it learns about each process and listener. */
#ifndef RECORD_SESSION_POLL_H
#define RECORD_SESSION_POLL_H

#include <stdint.h>

struct wm_session;

/*
 * Wait until a process or a listener has something to read, for wait_ns at most. Sets their
 * is_still and is_alive, so that the step needs no system call for those that have nothing: with
 * many processes those calls took most of a step. wm_session_wake() and a signal end the wait and
 * set is_woken.
 */
void session_poll(struct wm_session *session, uint64_t wait_ns);

/*
 * Put all present descriptors into the epoll descriptor, and that into the caller's (pollable.h).
 */
void session_poll_gather(struct wm_session *session);

#endif
