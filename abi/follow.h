/* SPDX-License-Identifier: MIT */
/*
 * Watches that follow pointers: the place of `head->next->value` while `head` and `head->next`
 * change.
 *
 * A session asks for one watch of each pointer on the way (WATCH_LEADS) and for one of each piece
 * of the value (WATCH_FOLLOWED). They share one event object. The parts that share memory, in the
 * table of watches (abi/watch.h):
 *
 *	inside, at a pointer's hit: the thread that wrote it, behind the store
 *	    asked++                 the chain is moving: no hit of the value counts from here on
 *	                            it waits until `done` has its number, at most FOLLOW_WAIT_MS
 *	outside, which waits on `asked`
 *	    waits until `inside` is 0, reads the pointers, moves the registers on every thread,
 *	    writes `at`, done = the `asked` that it began with
 *
 * A register whose place is unknown, since a pointer before it is null or leads nowhere, is parked
 * where no program has memory. Its `at` is 0.
 *
 * A hit of the value counts only if `asked` is `done`, the kernel says that the register was at the
 * chain's present place, and the pointers, read by the handler, lead there. A pointer that the
 * hit's own instruction wrote led there before it. All other hits are `astray`: they met the place
 * before, or the next one too early. They are dropped and counted, for they may be writes of the
 * variable.
 *
 * If the pointers lead elsewhere while `asked` is `done`, a change came without a hit (of the
 * kernel, of another process): the handler asks. The outside looks now and then too.
 */
#ifndef ABI_FOLLOW_H
#define ABI_FOLLOW_H

#include <stdint.h>

#define FOLLOWS_MAX 2 /* chains of a session in a process: each takes two registers or more */
#define FOLLOW_POINTERS_MAX 3 /* and one register for the value */
#define FOLLOW_WAIT_MS 1000

struct follow_chain {
	/* written outside, before its watches are asked for */
	uint64_t start;			      /* where the first pointer is */
	int64_t offsets[FOLLOW_POINTERS_MAX]; /* step i + 1 is at what step i holds, plus this */
	uint32_t count;			      /* of pointers */
	/*
	 * no thread waits. inside: set, as one waited in vain; outside: cleared by a move in time,
	 * set at the end
	 */
	uint32_t is_late;
	uint32_t asked, done; /* futexes */
	uint32_t inside;      /* threads that look at a hit of it */
	uint32_t reserved;
	/* written outside while `asked` is not `done`: the pointers', then the value's */
	uint64_t at[FOLLOW_POINTERS_MAX + 1];
	/* written inside, added to atomically */
	uint64_t late;	 /* a pointer changed, and the registers were not moved in time */
	uint64_t astray; /* hits of the value, as above; in its rows' `dropped` too */
};

_Static_assert(sizeof(struct follow_chain) == 104, "fixed");

#endif
