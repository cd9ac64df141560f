/* SPDX-License-Identifier: MIT */
/* The plan of a watch that follows pointers: what its registers watch (follow_serve.h). */
#ifndef RECORD_WATCH_FOLLOW_PLAN_H
#define RECORD_WATCH_FOLLOW_PLAN_H

#include "record/watch/ask.h"
#include "record/watch/watches.h"

#include <stdint.h>

/* Where the pointers are, and the value behind them. A forked child has the plan of its parent. */
struct follow_plan {
	unsigned int pointers; /* 0: nothing is followed */
	unsigned int pieces;   /* that the value takes */
	unsigned int index;    /* of this chain in the table */
	uint64_t start;
	uint64_t bytes; /* the value's */
	int64_t offsets[FOLLOW_POINTERS_MAX];
	char texts[FOLLOW_POINTERS_MAX][WATCHES_POINTER_MAX];
};

/*
 * Make the plan of a place whose expression has the option `follow`. *asked gets the value's pieces
 * and, behind them, the pointers. Returns 0 or an error with words.
 */
int follow_plan_make(struct follow_plan *plan, struct asked_watch *asked,
		     const struct watch_expr *expr, const struct watch_place *place,
		     struct watch_trouble *trouble);

#endif
