/* SPDX-License-Identifier: MIT */
/*
 * The sessions: one for each connection, numbered like their stores and their rules (lanes). What
 * each is, and what others ask of them; agent_session.c makes, serves and ends them. Control thread
 * only, except where noted.
 */
#ifndef INSIDE_CONTROL_SESSION_TABLE_H
#define INSIDE_CONTROL_SESSION_TABLE_H

#include "abi/control.h"
#include "inside/patch/text.h"
#include "inside/runtime/sessions.h"

#include <stdint.h>
#include <sys/un.h>

#define SESSION_LAUNCHED 1 /* the program waits for GO */
#define SESSION_FORKED 2   /* a child of a process that the tool records */
#define SESSION_SHARES 8   /* what it passes until it has a store goes to its parent's */
#define SESSION_ACCEPTED 4 /* a tool came to us: it opens soon, or goes */

#define SESSION_PATH_BYTES sizeof(((struct sockaddr_un *)0)->sun_path)

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
 * OPEN -> INHERITED     the session is its parent's: the child writes to that store or counts there
 * INHERITED -> CLOSING  a session of the child's own records it, or that of its parent is over
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
	int awaits_go;		       /* the program waits for its GO */
	int is_quiet;	     /* QUIET, and nothing was armed since: it follows no new children */
	uint64_t follows_ns; /* since when it is notified of new modules: from COMMIT on; 0: not */
	uint32_t unseen;     /* modules that it was notified of and has not SEEN */
	int watches;	     /* a thread in the loader waits for that */
	int is_behind;	     /* one waited in vain, and it has not SEEN all since */
};

extern struct session sessions[SESSIONS_MAX];

/* The means to patch that session_init() was given. */
extern const struct text *session_text;

unsigned int session_lane(const struct session *session);

/* How many there are, those that still close included. */
unsigned int session_count(void);

/* Whether one of them has, or had, a store: not somebody who only asks for the list. */
int session_any_opened(void);

/* Whether the program waits for GO of some session. */
int session_any_awaits_go(void);

/* The socket of a lane's session, or -1. */
int session_fd(unsigned int lane);

/* Whether it has a store. */
int session_is_open(unsigned int lane);

/* Whether the agent reports all modules to it, with or without markers; it answers with SEEN. */
int session_follows_modules(unsigned int lane);

/*
 * Where forked children find a lane's tool, NULL: nowhere; what it has placed (COMMIT), 0: nothing.
 */
const char *session_tool(unsigned int lane);
uint64_t session_set(unsigned int lane);

/* Whether it is the parent's, and a session of this process has the same tool. */
int session_is_replaced(unsigned int lane);

/* What the child has of its parent's sessions with the tool at this path, a bit for each lane. */
uint32_t session_inherited(const char *tool);

/*
 * Where forked children find the tools, a path for each session that gave one; returns how many. In
 * the child of a fork, or under the agent's lock.
 */
unsigned int session_tool_paths(char paths[SESSIONS_MAX][SESSION_PATH_BYTES]);

/* The lanes of the sessions that have such paths, a bit for each. */
uint32_t session_followed(void);

/*
 * What the child of a fork has of its parent's sessions: code and trampolines are its own copies
 * already, so a session of the same tool can have them for the asking (ADOPT).
 */

/*
 * The child of a fork, before it forgets its parent's sessions. `whole`: the agent's lock was held
 * at the fork; else nothing is known of them.
 */
void session_inherit(int whole);

/* What there is of the session that the tool at this path has with the parent; NULL: nothing. */
const struct control_inherited *session_inherited_of(const char *tool);

/*
 * Let the session of a lane, to which the tool at `tool` belongs, have what was placed for its
 * parent's. It has opened its store and armed nothing. Returns the number of places; -ENOENT where
 * `set` is not what was inherited, -EBUSY. Under the agent's lock.
 */
int session_adopt(unsigned int lane, const char *tool, uint64_t set);

#endif
