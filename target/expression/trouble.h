/* SPDX-License-Identifier: MIT */
/* Why a watch can't be had, in words that its user understands. */
#ifndef TARGET_EXPRESSION_TROUBLE_H
#define TARGET_EXPRESSION_TROUBLE_H

#include <stddef.h>

#define WATCH_DETAIL_MAX 512

/*
 * Filled when a call returns an error that has a cause of its own (-WM_E_WATCH_*); `detail` is what
 * complain() takes behind the cause's text. It says it all: which part of the expression, of what
 * type, and what there is in its place.
 */
struct watch_trouble {
	int error; /* what the call returned; 0: nothing happened yet */
	size_t at,
		/*
		 * the part of the spec that it is about, from its first byte, "watch:" and all; 0,
		 * 0: all of it
		 */
		bytes;
	char detail[WATCH_DETAIL_MAX]; /* "" if the cause says it all */
};

/*
 * Fill it. NULL is let pass. Returns `error`, to be returned on.
 */
int expression_trouble_set(struct watch_trouble *trouble, int error, size_t at, size_t bytes,
			   const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
