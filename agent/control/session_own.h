/* SPDX-License-Identifier: MIT */
/*
 * What a session is, for agent_session.c, which makes and ends them, and session_request.c, which
 * serves them.
 */
#ifndef AGENT_CONTROL_SESSION_OWN_H
#define AGENT_CONTROL_SESSION_OWN_H

#include "abi/control.h"
#include "agent/control/agent_session.h"
#include "agent/marker/marker.h"

#define SESSION_LOCK_MS 2000  /* for the agent's lock */
#define SESSION_QUIET_MS 1000 /* for threads to leave their hits */

/*
 * FREE -> GREETED    a connection was made; so far it can only ask
 * GREETED -> OPEN    OPEN was served: it has a store
 * GREETED -> FREE    the connection ended, or somebody who came to us has not opened for OPEN_MS
 * OPEN -> CLOSING    the connection ended; its markers are disarmed, but a thread may still write
 * CLOSING -> FREE    no thread does
 * CLOSING -> LEFT    one does not leave its hit: its store stays mapped, and no thread waits longer
 * LEFT -> FREE       it has left, or was found to have left long ago
 *
 * In the child of a fork:
 *
 * OPEN -> INHERITED     the session is its parent's: the child writes to that store, or counts
 * there INHERITED -> CLOSING  a session of the child's own records it, or that of its parent is
 * over
 */
enum session_state {
	SESSION_FREE = 0,
	SESSION_GREETED,
	SESSION_OPEN,
	SESSION_CLOSING,
	SESSION_LEFT,
	SESSION_INHERITED,
};

struct session {
	int fd;
	enum session_state state;
	uint64_t open_until_ns;	       /* if GREETED; 0: may take its time */
	char tool[SESSION_PATH_BYTES]; /* where forked children find it; "" */
	char came[SESSION_PATH_BYTES]; /* the path that we connected to; "" */
	uint64_t set;		       /* what it has placed */
	int owes_go;		       /* the program waits for its GO */
	int is_quiet;	      /* QUIET, and nothing was armed since: it follows no new children */
	int follows_modules;  /* after COMMIT: notify it of new modules */
	uint32_t uncommitted; /* places that were prepared since its last COMMIT */
};

/* The means to patch that session_init() was given. */
extern const struct text *session_text;

unsigned int session_lane(const struct session *session);

/*
 * Disarm all that the session has; its store is quiet then. -ETIMEDOUT: but for threads that don't
 * leave a hit of theirs; or another error.
 */
int session_make_quiet(struct session *session, struct change *change, unsigned int timeout_ms);

/*
 * Serve one request; what it changed is counted in *change. Returns what to answer; 1: nothing.
 */
int request_serve(struct session *session, const struct wm_message *message, struct change *change);

#endif
