/* SPDX-License-Identifier: MIT */
/*
 * Making, serving and ending sessions (session_table.h). Control thread only, except where noted.
 * None of these is called under the agent's lock; they take it themselves.
 */
#ifndef INSIDE_CONTROL_AGENT_SESSION_H
#define INSIDE_CONTROL_AGENT_SESSION_H

#include "inside/patch/text.h"
#include "inside/runtime/sessions.h"

#include <poll.h>
#include <stdint.h>

/* Whether a thread in the loader is to wait for some session's SEEN (abi/control.h). */
int session_any_pending(void);

/* Let the threads continue that wait for SEENs; for GO, with a message to the sessions. */
void session_forgive_seen(void);
void session_forgive_go(void);

/* Once, when the control thread starts: nothing is known of earlier sessions. */
void session_init(const struct text *text);

/*
 * Take a connected socket over, check who is there and say HELLO. `tool` is the path that was
 * connected to, NULL for a tool that came to us. Returns 0, or an error with the socket closed:
 * -WM_E_PEER_UID, -WM_E_SESSIONS, -errno.
 */
int session_add(int fd, unsigned int flags, const char *tool);

/* One entry for each lane; its fd is -1 where there is nothing to wait for. */
void session_poll_fds(struct pollfd fds[SESSIONS_MAX]);

/* Serve what poll(2) found. */
void session_serve(const struct pollfd fds[SESSIONS_MAX]);

/* Now and then: finish what had to be put off. */
void session_tick(void);

/*
 * Tell a tool instead of HELLO that this program has no agent, and why (CONTROL_UNRECORDED). Any
 * thread. 0 or an error.
 */
int session_refuse(int fd, int error);

/* Tell the tools that the agent ends before the program does, and why (CONTROL_UNRECORDED). */
void session_refuse_all(int why);

/* Disarm and close all; bounded. */
void session_drop_all(void);

/* Follow the loader: scan, arm, report. 0 or an error. The first: under the agent's lock. */
int session_scan(void);
int session_rescan(void);

/*
 * The child of a fork could not reach the tool at this path, to which a session of its parent's
 * belongs. It counts as unrecorded, unless its parent's store has all of it. Any thread.
 */
void session_unreached(const char *tool, int error);

/*
 * The child of a fork has no sessions, but what it inherits of those of `lanes`, a bit for each.
 * `incomplete`: not all of what its parent records comes into its parent's store.
 */
void session_forked(uint32_t lanes, int incomplete);

/*
 * Take the agent's lock at a moment when code may be patched: not while the loader takes a module
 * away. Strict: all other threads are stopped, so there is nothing to wait for. 0, -EBUSY,
 * -EDEADLK.
 */
int session_patching_lock(const struct text *text, int strict);

/*
 * Disarm all that the session has; its store is quiet then. -ETIMEDOUT: but for threads that don't
 * leave a hit of theirs; or another error.
 */
struct change;
struct session;
int session_quiet(struct session *session, struct change *change, unsigned int timeout_ms);

/*
 * session_request.c: serve one request; what it changed is counted in *change. Returns what to
 * answer; 1: nothing.
 */
struct wm_message;
int request_serve(struct session *session, const struct wm_message *message, struct change *change);

#endif
