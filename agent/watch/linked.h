/* SPDX-License-Identifier: MIT */
/*
 * The chain of a watched word's values (abi/watch.h, "New and old value"): each hit's old value is the new value
 * of the hit before. Hit path.
 *
 * A locked addition tells what it added, and not what it met. Threads in here say what they added, so
 * that memory less the additions of the others can be held against the chain: if the two agree, the value is
 * exact. A thread between its addition and here makes them differ, and so the caller tries again for some
 * microseconds.
 */
#ifndef AGENT_WATCH_LINKED_H
#define AGENT_WATCH_LINKED_H

#include "agent/watch/take.h"
#include "arch/told.h"

/* What one watch makes of a hit. */
struct linked {
	struct told_values values;
	uint64_t ticks;
};

/*
 * Find the values, and link them in. Value and time are stored as one, so that the chain of values is in the order of
 * its times, whoever comes between reading the clock and here.
 */
void linked_take(struct watch_entry *entry, const struct told *told, struct linked *seen);

#endif
