/* SPDX-License-Identifier: MIT */
/* Blocks and paths as an origin knows them, which gives no ids: by address and code. */
#ifndef TRACE_TRAIL_SOURCE_H
#define TRACE_TRAIL_SOURCE_H

#include "abi/trail.h"

struct trail_source_block {
	struct trail_entry entry;
	const uint8_t *code; /* NULL: it can't be had */
};

/*
 * Blocks that run one after the other, often, all to their ends. Numbers are the origin's: lists go by them, so none is larger
 * than it has to be. A path's stands for the same blocks for good; and `first` for the first of them alone, in all paths
 * that have it, first + 1 for the second...
 */
struct trail_source_path {
	uint32_t number, first;
	uint32_t count; /* 1 at least */
	const struct trail_source_block *blocks;
};

#endif
