/* SPDX-License-Identifier: MIT */
/*
 * Watches that follow pointers, the outside part (abi/follow.h). One event object has a register
 * for each pointer of the chain and for each piece of the value. A thread of the tool moves the
 * registers when a pointer changes.
 *
 *	follow_plan_make()  from the place: which pointers, and the requests for the agent
 *	follow_begin()	    the agent's table is mapped
 *	follow_settle()	    the object's settle()
 *	follow_serve()	    the object is armed: start the thread
 *	follow_stop()	    before the object is made quiet
 */
#ifndef SESSION_WATCH_FOLLOW_SERVE_H
#define SESSION_WATCH_FOLLOW_SERVE_H

#include "session/watch/ask.h"
#include "session/watch/watches.h"

#include <stdint.h>

struct event_source;
struct follow;
struct process;
struct watching;

/* Where the pointers are, and the value behind them. A forked child has the plan of its parent. */
struct follow_plan {
	unsigned int pointers; /* 0: nothing is followed */
	unsigned int pieces;   /* that the value takes */
	unsigned int index;    /* of this chain in the table */
	uint64_t start;
	uint64_t bytes; /* the value's */
	int64_t offsets[FOLLOW_POINTERS_MAX];
	char texts[FOLLOW_POINTERS_MAX][WATCHES_POINTER_MAX];
};

/*
 * Make the plan of a place whose expression has the option `follow`. *asked gets the value's pieces
 * and, behind them, the pointers. Returns 0 or an error with words.
 */
int follow_plan_make(struct follow_plan *plan, struct asked_watch *asked,
		     const struct watch_expr *expr, const struct watch_place *place,
		     struct watch_trouble *trouble);

/*
 * Write the chain to the table, follow the pointers, set the address of each piece. 0 or -ENOMEM.
 */
int follow_begin(struct watching *watching);
int follow_settle(struct watching *watching, uint8_t generation);

/* 0 or -errno. */
int follow_serve(struct watching *watching);

/*
 * Stop the thread that moves the registers. No thread of the program waits for it any more. NULL is
 * allowed.
 */
void follow_stop(struct follow *follow);
void follow_release(struct follow *follow);

/* Lock the chain while the caller reads the counts of its object. NULL is allowed. */
void follow_lock(struct follow *follow);
void follow_unlock(struct follow *follow);

/*
 * Add the chain's counts to *to. The second reports its pointers, and the value's address if known.
 */
void follow_count(const struct follow *follow, struct watch_counts *to);
void follow_describe(const struct follow *follow, struct watched_spec *result);

#endif
