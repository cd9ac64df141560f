/* SPDX-License-Identifier: MIT */
/*
 * Watches that follow pointers, the outside part (abi/follow.h). One event object has a register
 * for each pointer of the chain and for each piece of the value. A thread of the tool moves the
 * registers when a pointer changes.
 *
 *	ask_make_follow()  from the place: which pointers, and the requests (ask.h)
 *	follow_begin()	    the agent's table is mapped
 *	follow_settle()	    the object's settle()
 *	follow_serve()	    the object is armed: start the thread
 *	follow_stop()	    before the object is made quiet
 */
#ifndef RECORD_WATCH_FOLLOW_SERVE_H
#define RECORD_WATCH_FOLLOW_SERVE_H

#include <stdint.h>

struct follow;
struct watch_counts;
struct watched_spec;
struct watching;

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
