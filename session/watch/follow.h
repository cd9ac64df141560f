/* SPDX-License-Identifier: MIT */
/*
 * Watches that follow pointers, outside (abi/follow.h): one event object for the pointers on the
 * way and the value, and a thread of the tool that moves its registers when a pointer was written.
 *
 *	follow_plan_make()  from the place: which pointers, and what the agent is asked
 *	follow_begin()	    the agent's table is there
 *	follow_settle()	    the object's settle()
 *	follow_serve()	    it is armed: the thread starts
 *	follow_stop()	    before the object is quiet
 */
#ifndef SESSION_WATCH_FOLLOW_H
#define SESSION_WATCH_FOLLOW_H

#include "session/watch/ask.h"
#include "session/watch/watches.h"

#include <stdint.h>

struct event_source;
struct follow;
struct process;
struct watching;

/* Where the pointers are, and the value behind them. A forked child has its parent's. */
struct follow_plan {
	unsigned int pointers; /* 0: nothing is followed */
	unsigned int pieces;   /* of the value */
	unsigned int index;    /* of the table's chains */
	uint64_t start;
	uint64_t bytes; /* the value's */
	int64_t offsets[FOLLOW_POINTERS_MAX];
	char texts[FOLLOW_POINTERS_MAX][WATCHES_POINTER_MAX];
};

/*
 * Of a place whose expression has the option `follow`; `base`: of its module. *asked gets the
 * value's pieces and, behind them, the pointers. 0 or an error with words.
 */
int follow_plan_make(struct follow_plan *plan, struct asked_watch *asked,
		     const struct watch_expr *expr, const struct watch_place *place,
		     struct watch_trouble *trouble);

/* Write the chain, look where it leads, give the pieces their addresses. 0 or -ENOMEM. */
int follow_begin(struct watching *watching);
int follow_settle(struct watching *watching, uint8_t generation);

/* 0 or -errno. */
int follow_serve(struct watching *watching);

/* No register is moved any more, and no thread of the program waits for that. NULL is allowed. */
void follow_stop(struct follow *follow);
void follow_release(struct follow *follow);

/* While its counts are read. NULL is allowed. */
void follow_lock(struct follow *follow);
void follow_unlock(struct follow *follow);

/* Add what it came to; the last process's address and pointer. */
void follow_count(const struct follow *follow, struct watch_counts *to);
void follow_describe(const struct follow *follow, struct watched_spec *result);

#endif
