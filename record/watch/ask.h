/* SPDX-License-Identifier: MIT */
/*
 * Turns a spec into requests for the agent: a control_watch for each piece, and the text of its
 * event.
 */
#ifndef RECORD_WATCH_ASK_H
#define RECORD_WATCH_ASK_H

#include "abi/watch.h"
#include "record/watch/watches.h"
#include "target/expression/watch_place.h"

#define ASK_TEXT_MAX 4096

struct asked_watch {
	struct control_watch
		about[WATCH_REGISTERS]; /* the caller fills in number, magic and generation */
	unsigned int count;
	uint8_t conditions;
	char text[ASK_TEXT_MAX]; /* of the event; "" where only the count is wanted */
};

/*
 * `address` is that of the value in the process. Returns 0, or with words in *trouble
 * -WM_E_WATCH_LARGE, -WM_E_WATCH_OPTION or -WM_E_WATCH_SYNTAX.
 */
int ask_make(struct asked_watch *asked, const struct watch_expr *expr,
	     const struct watch_place *place, uint64_t address, struct watch_trouble *trouble);

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
int ask_make_follow(struct follow_plan *plan, struct asked_watch *asked,
		    const struct watch_expr *expr, const struct watch_place *place,
		    struct watch_trouble *trouble);

#endif
