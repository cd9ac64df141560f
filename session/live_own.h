/* SPDX-License-Identifier: MIT */
/* What the parts of a session's trails have of each other: who they are (live.c), how they are taken and let go (live_take.c). */
#ifndef SESSION_LIVE_OWN_H
#define SESSION_LIVE_OWN_H

#include "session/session.h"
#include "branch/files.h"
#include "branch/kept.h"
#include "session/live.h"
#include "branch/stepper.h"
#include "branch/store.h"

struct live_process {
	struct live_process *next;
	pid_t pid;
	int is_begun; /* to be taken, by that origin; not yet is_taken */
	enum origin origin;
	int is_taken, is_over;
	int goes;		   /* it was let go */
	int is_asked, is_silent;   /* to let it go; and it has no more to say */
	struct live_process *root; /* of a child: the process whose stepper steps it; else NULL */
	int is_foreign;
	uint64_t flushed_ns;
	struct wm_session *session;
	struct trail_store *store; /* of a flight recorder; else NULL */
	struct trail_files files;
	struct kept kept; /* of a recorder that is kept at hits */
	struct stepper stepper;
};

/* Whose stepper that is. */
struct live_process *live_process_of(void *stepper);

/* A process more, the session's newest. 0, or an error with the session's detail. */
int live_add(struct wm_session *session, pid_t pid, struct live_process **added);

/* Where its trail goes, and how it is recorded now. */
struct trail_sink *live_sink_of(struct live_process *live);
struct tracing_how live_how_of(const struct wm_session *session);

/* It stands, and can be told of; then it may be let go. An error of the sink's. */
int live_taken(struct live_process *live);
void live_go(struct live_process *live);

/* It stands: from now on what led to hits is kept. */
void live_keep_begin(struct live_process *process);

/* What led to none is forgotten. An error of the folder's. */
int live_keep_end(struct live_process *process);

/* All are asked to let go before the first is waited for, and what they have yet to say is taken as it comes. */
void live_ask_all(struct wm_session *session);

#endif
