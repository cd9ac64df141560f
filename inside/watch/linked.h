/* SPDX-License-Identifier: MIT */
/*
 * The chain of a watched word's values (abi/watch.h, "New and old value"): each hit's old value is
 * the new value of the hit before. Hit path.
 *
 * A locked addition reveals what it added, and not the value before. Threads in here publish what
 * they added. So the caller compares the chain with memory less the additions of the others: if the
 * two agree, the value is exact. A thread between its addition and here makes them differ; then the
 * caller tries again for some microseconds.
 */
#ifndef INSIDE_WATCH_LINKED_H
#define INSIDE_WATCH_LINKED_H

#include "arch/access_decode.h"
#include "inside/watch/watch_entry.h"

/* What one watch makes of a hit. */
struct linked {
	struct access_decode_values values;
	uint64_t ticks;
};

/*
 * Find the values, and link them in. One operation stores value and time, so the chain of values is
 * in the order of its times, even if another thread comes between reading the clock and here.
 */
void linked_take(struct watch_entry *entry, const struct access_decode *reported,
		 struct linked *seen);

#endif
