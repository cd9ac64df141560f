/* SPDX-License-Identifier: MIT */
/*
 * Where the program mostly continues, according to its own recorded words. The engine looks at a
 * full segment now and then. It lays hot traces out again along the usual path.
 */
#ifndef INSIDE_ENGINE_PROFILE_H
#define INSIDE_ENGINE_PROFILE_H

#include "inside/engine/engine_thread.h"

/*
 * The thread's segment is full, up to thread->pointer; the thread is in translated code, or in no
 * code that holds the engine's lock.
 */
void profile_look(const struct thread *thread);

/*
 * Which block mostly follows which: the translator lays hot traces out by it. Under the engine's
 * lock.
 */

/* Get the memory, unless it is there. 0, or -ENOMEM. Before profile_vote(). */
int profile_open(void);

/* The block at `to` ran after the one at `from`. */
void profile_vote(uint64_t from, uint64_t to);

/* Where the block at `start` mostly led; 0: it was not seen. */
uint64_t profile_next(uint64_t start);

/* The same, if it seldom led elsewhere. */
uint64_t profile_sure(uint64_t start);

#endif
