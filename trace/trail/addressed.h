/* SPDX-License-Identifier: MIT */
/* Blocks and paths as an origin knows them, which gives no ids: by address and code. */
#ifndef TRACE_TRAIL_ADDRESSED_H
#define TRACE_TRAIL_ADDRESSED_H

#include "abi/trail.h"

struct trail_source_block {
	struct trail_entry entry;
	const uint8_t *code; /* NULL: it can't be had */
};

/*
 * Blocks that run one after the other, often, all to their ends. Numbers are the origin's: lists
 * are indexed by them, so keep them small. The number of a path always means the same blocks; and
 * `first` means only the first of them, in all paths that have it, first + 1 the second...
 */
struct trail_source_path {
	uint32_t number, first;
	uint32_t count; /* 1 at least */
	const struct trail_source_block *blocks;
};

#endif
