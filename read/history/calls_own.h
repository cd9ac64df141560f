/* SPDX-License-Identifier: MIT */
/*
 * A walk's own: how the stack changes when a thread continues elsewhere. For calls.c and calls_go.c
 * alone.
 */
#ifndef READ_HISTORY_CALLS_OWN_H
#define READ_HISTORY_CALLS_OWN_H

#include "read/history/calls.h"

/* The innermost frame, where there is one. */
static inline struct call_frame *calls_top(struct calls *calls)
{
	return &calls->frames[calls->depth - 1];
}

/* Have all frames but the outermost `keep` go, for `end`, and the last of them for `last_end`. */
void calls_leave(struct calls *calls, uint32_t keep, enum call_end end, enum call_end last_end);

/* The thread continues at `at`, in code of `region`: report the change. 0 or -ENOMEM. */
int calls_go(struct calls *calls, uint64_t at, const struct function *region);

/*
 * The same by rt_sigreturn: back to what a handler's frame interrupted, or wherever the handler
 * wrote. There is a frame.
 */
int calls_go_back(struct calls *calls, uint64_t at, const struct function *region);

#endif
