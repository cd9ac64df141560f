/* SPDX-License-Identifier: MIT */
/*
 * Watches that come later than the session's start: in processes that are forked or executed, in libraries that are loaded. What waits
 * for us meanwhile, a child in its fork, a thread in the loader, goes on when they are armed.
 *
 * They are armed one process after another, never one inside of another's steps: so all is noted first, and done by
 * later_attend().
 */
#ifndef SESSION_WATCH_LATER_H
#define SESSION_WATCH_LATER_H

#include "abi/watch.h"

#include <stddef.h>
#include <stdint.h>

struct locals;
struct process;
struct wm_session;

/* Of one process; zeroed: nothing. */
struct watch_state {
	struct watch_table *table;    /* mapped; NULL: not yet */
	struct watch_table **earlier; /* that were let go of */
	size_t earlier_count, earlier_room;
	struct locals *locals; /* NULL: no local variable is watched */
	uint32_t magic;	       /* 0: not yet */
	uint32_t next;	       /* the next number of a row */
	uint8_t sets;	       /* of an object */
	/* a pass goes on, in steps, in which the process may end or the agent let go: that is only noted */
	int is_arming, has_ended, lost;
	int is_barred;	 /* code of Go has come: nothing is armed any more */
	int has_modules; /* those that it had before watching began were told of */
	int is_noted;	 /* it is counted as one that goes on with something unwatched */
	uint64_t alone; /* rows that nobody serves any more, a bit each, as was told meanwhile (sharing.h) */
	/* what is due */
	int is_new;	   /* it is a process that has come, and waits for GO */
	uint64_t *modules; /* bases of those that were told of and have no SEEN yet */
	size_t module_count, module_room;
	uint64_t *gone; /* bases of those that went while some were armed */
	size_t gone_count, gone_room;
	uint64_t looked_ns; /* when owners were looked for last */
};

/* A process that has come is ready: returns 1 if it is to be let go by later_attend(). */
int later_welcome(struct wm_session *session, struct process *process);

/* Its agent told of a module that came: 1 if later_attend() will say SEEN; 0; -ENOMEM. */
int later_module_came(struct wm_session *session, struct process *process, uint64_t base);

/*
 * One that went: what is watched in it ends. What is just being armed there ends by later_settle_gone(), when it is the process's.
 * 0 or -ENOMEM.
 */
int later_module_gone(struct wm_session *session, struct process *process, uint64_t base);
void later_settle_gone(struct wm_session *session, struct process *process);

/* Do what is due, unless somebody is at it. 0, or an error that ends the connection. */
int later_attend(struct wm_session *session, struct process *process);

struct finding;

/* Ask for what a forked child's parent has, at the same places. */
int later_take_parents(struct finding *finding);

void later_release(struct watch_state *state);

#endif
