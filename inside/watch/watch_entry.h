/* SPDX-License-Identifier: MIT */
/*
 * The watches that are armed, one entry each: watch.c fills them in, the signal's handler reads
 * them.
 *
 * Threads look entries up in their signal handlers at any time: an entry that is no longer live is
 * reused only when no thread is inside.
 */
#ifndef INSIDE_WATCH_WATCH_ENTRY_H
#define INSIDE_WATCH_WATCH_ENTRY_H

#include "abi/watch.h"
#include "inside/marker/marker.h"

#include <stddef.h>
#include <stdint.h>

struct watch_entry {
	uint32_t lane;
	uint32_t clock; /* the lane's */
	/* WATCH_OF_FRAME: its address is the present frame's (frame.h) */
	struct control_watch about;
	int64_t from_cfa;
	struct watch_row *row;
	const struct marker *event;
	uint32_t is_gone; /* the library that it lay in was unloaded */
	uint64_t adding;  /* the sum that threads in the handler have added and not yet linked in */
	/* watch.c's */
	uint32_t is_used;
	struct variant own; /* its event, if it has one itself */
	struct site site;
	char *text;
	size_t text_bytes;
};

extern struct watch_entry watch_entries[WATCH_ROWS_MAX] __attribute__((visibility("hidden")));

/* Which of them are live, a bit each, to avoid a search of all: set after an entry is complete. */
extern uint64_t watch_live __attribute__((visibility("hidden")));

_Static_assert(WATCH_ROWS_MAX == 64, "a bit each");

/* How many threads are in take_signal() just now. */
extern uint32_t watch_inside __attribute__((visibility("hidden")));

/* The last entries that ended, whose signals may still come. 0: none. */
#define WATCH_PAST_MAX 32
extern uint32_t watch_past[WATCH_PAST_MAX] __attribute__((visibility("hidden")));

/* The agent's own code, from..to: what it restores, as errno, is no event. Both 0: unknown. */
extern uintptr_t watch_own_start __attribute__((visibility("hidden")));
extern uintptr_t watch_own_end __attribute__((visibility("hidden")));

#endif
