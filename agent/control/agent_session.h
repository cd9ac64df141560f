/* SPDX-License-Identifier: MIT */
/*
 * Sessions: one for each connection, numbered like their stores and their rules (lanes). Control
 * thread only, except session_tool_paths(). None of these is called under the agent's lock; they
 * take it themselves.
 */
#ifndef AGENT_CONTROL_AGENT_SESSION_H
#define AGENT_CONTROL_AGENT_SESSION_H

#include "agent/patch/text.h"
#include "agent/runtime/sessions.h"

#include <poll.h>
#include <stdint.h>
#include <sys/un.h>

#define SESSION_LAUNCHED 1 /* the program waits for GO */
#define SESSION_FORKED 2   /* a child of a process that the tool records */
#define SESSION_SHARES 8   /* what it passes until it has a store goes to its parent's */
#define SESSION_ACCEPTED 4 /* a tool came to us: it opens soon, or goes */

#define SESSION_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

/* The socket of a lane's session, or -1. */
int session_fd(unsigned int lane);

/*
 * Where forked children find a lane's tool, NULL: nowhere; what it has placed (COMMIT), 0: nothing.
 */
const char *session_tool(unsigned int lane);
uint64_t session_set(unsigned int lane);

/* Whether it is the parent's, and a session of this process has the same tool. */
int session_is_replaced(unsigned int lane);

/* Whether it has a store. */
int session_is_open(unsigned int lane);

/* Whether the agent reports all modules to it, with or without markers; it answers with SEEN. */
int session_follows_modules(unsigned int lane);

/* Whether a thread in the loader is to wait for some session (owed.h). */
int session_any_owes(void);

/* Notify the sessions that owe a SEEN that no thread waits for it any longer; likewise GO. */
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

/* How many there are, those that still close included. */
unsigned int session_count(void);

/* Whether one of them has, or had, a store: not somebody who only asks for the list. */
int session_any_opened(void);

/* One entry for each lane; its fd is -1 where there is nothing to wait for. */
void session_poll_fds(struct pollfd fds[SESSIONS_MAX]);

/* Serve what poll(2) found. */
void session_serve(const struct pollfd fds[SESSIONS_MAX]);

/* Now and then: finish what had to be put off. */
void session_tick(void);

/* Disarm and close all; bounded. */
void session_drop_all(void);

/* Follow the loader: scan, arm, report. 0 or an error. */
int session_rescan(void);

/*
 * Where forked children find the tools, a path for each session that gave one; returns how many. In
 * the child of a fork, or under the agent's lock.
 */
unsigned int session_tool_paths(char paths[SESSIONS_MAX][SESSION_PATH_BYTES]);

/* The lanes of the sessions that have such paths, a bit for each. */
uint32_t session_followed(void);

/* Whether the program waits for GO of some session. */
int session_any_owes_go(void);

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

#endif
