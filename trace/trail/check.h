/* SPDX-License-Identifier: MIT */
/* Whether a trail's blocks and events may follow each other (abi/trail.h), one after the other. */
#ifndef TRACE_TRAIL_CHECK_H
#define TRACE_TRAIL_CHECK_H

#include "trace/trail/path.h"

/* Zeroed: nothing came yet, and anything may. */
struct trail_check {
	const struct trail_block
		*before; /* the last block, until an event says where it continues; NULL: none */
	uint64_t next;	 /* where it continues, after an event; 0: anywhere */
	int is_over;	 /* after a TRAIL_END */
};

/* The valid part of a run of ids. */
struct trail_checked {
	uint32_t words, blocks;
	int has_paths; /* some of them were */
};

/*
 * Take in blocks, by ids of theirs or of paths. NULL; or what is wrong with the first of them that
 * can't be: those before it are *good, or all.
 */
const char *trail_check_blocks(struct trail_check *check, const struct trail_table *table,
			       const uint8_t *ids, uint32_t count, struct trail_checked *good);

/* Take in an event. NULL, or what is wrong. */
const char *trail_check_event(struct trail_check *check, const struct trail_between *between);

#endif
