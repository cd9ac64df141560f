/* SPDX-License-Identifier: MIT */
/*
 * The calls that a thread is in at a place of its trail, found by walking back: a call is open if
 * no return came after it. Enough to show where something happened; read/history/calls.h has whole
 * histories.
 */
#ifndef READ_HISTORY_CALLERS_H
#define READ_HISTORY_CALLERS_H

#include "trace/trail/path.h"

#include <stddef.h>
#include <stdint.h>

struct caller {
	uint64_t at;			 /* the call, or where a signal interrupted */
	int64_t signal;			 /* its number; 0: a call */
	const struct trail_table *table; /* the table of its block */
};

/* The innermost first, `most` of them. Returns how many. Blocks that are missing end it. */
size_t callers_find(struct trail_cursor cursor, struct caller *callers, size_t most);

#endif
