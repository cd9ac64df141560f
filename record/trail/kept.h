/* SPDX-License-Identifier: MIT */
/*
 * Copies the contents of a flight recorder (store.h) into another sink again and again, each time
 * the part since the last copy. Each thread has one trail there, of several stretches, with a
 * TRAIL_LOST where something between them was overwritten.
 *
 * One thread at a time uses it, as the sink behind it.
 */
#ifndef RECORD_TRAIL_KEPT_H
#define RECORD_TRAIL_KEPT_H

#include "record/trail/sink.h"
#include "record/trail/store.h"

struct kept {
	struct trail_sink sink; /* what the store writes to */
	struct trail_sink *to;
	struct kept_thread *threads; /* whose trails are open there */
	size_t reported, at;	     /* modules, ever and this time */
};

/* `to` is the caller's, and has begun. End it also after an error. */
void kept_init(struct kept *kept, struct trail_sink *to);

/* Put there what the store has, and clear that. 0 or the first error. */
int kept_take(struct kept *kept, struct trail_store *store);

/*
 * The trails that are open there end: what the threads did since is not wanted. 0 or the first
 * error.
 */
int kept_end(struct kept *kept);

#endif
