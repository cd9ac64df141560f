/* SPDX-License-Identifier: MIT */
/*
 * The mappings, from /proc/self/maps; the gaps between them, and what may grow into those. Under
 * the agent's lock.
 */
#ifndef INSIDE_DETOUR_GAPS_H
#define INSIDE_DETOUR_GAPS_H

#include "base/pun.h"

#include <stdint.h>

struct gap {
	uintptr_t start, end;
	int after_heap;	  /* brk(2) may grow into it from below */
	int before_stack; /* the main stack, from above */
	/* private anonymous memory that can be written: a stack, perhaps (MAP_GROWSDOWN) */
	int before_data;
};

/*
 * Tell of each, from the lowest on; those that begin below PUN_LOWEST begin there. How many
 * mappings there are, or -errno.
 */
int gaps_find(void (*found)(const struct gap *gap, void *data), void *data);

#endif
