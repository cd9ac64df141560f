/* SPDX-License-Identifier: MIT */
/* The threads of one trace, each with the thread of another that does the same there. */
#ifndef TRACE_TRAIL_PAIR_H
#define TRACE_TRAIL_PAIR_H

#include "trace/trail/path.h"

struct trail_pair {
	const struct trail_path *of[2]; /* one may be NULL: it has no counterpart */
};

/*
 * Pair them by order of creation, where the trails have it, else by order of first run: first those
 * of the same name in the processes that came in the same order, then the others of these, then all
 * others. *pairs is the caller's to free; in the order of the first trace's threads, those that
 * only the other has last. 0 or -ENOMEM.
 */
int trails_pair(struct trail_pair **pairs, size_t *count, const struct trails *a,
		const struct trails *b);

#endif
