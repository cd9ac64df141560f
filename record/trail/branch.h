/* SPDX-License-Identifier: MIT */
/* Records of waymark/trail.h, made of blocks and the events between them. */
#ifndef RECORD_TRAIL_BRANCH_H
#define RECORD_TRAIL_BRANCH_H

#include "abi/trail.h"
#include "trace/trail/path.h"

#include <stdint.h>
#include <sys/types.h>
#include <waymark/trail.h>

/* A block or an event of a thread, in any part of its trail. */
struct branch_item {
	const struct trail_entry *entry; /* NULL: an event */
	const uint8_t *code;		 /* the block's, or NULL */
	const struct trail_between *between;
	uint64_t monotonic_ns;
};

struct branch_thread {
	pid_t pid, tid;
};

/*
 * The record for an item, given those before and after it; NULL: unknown, or none. *branch has its
 * size, which is kept; only that much is filled in.
 */
void branch_make(struct wm_branch *branch, const struct branch_item *before,
		 const struct branch_item *item, const struct branch_item *after,
		 struct branch_thread of);

/*
 * The offsets of a block's instructions, in offsets[TRAIL_BLOCK_INSTRUCTIONS_MAX]. How many there
 * are; 1, the block, where they are not known.
 */
uint32_t branch_offsets(const struct trail_entry *entry, const uint8_t *code, uint16_t *offsets);

/* A block of a table, as an entry. */
static inline struct trail_entry branch_entry(const struct trail_block *block)
{
	return (struct trail_entry){ .start = block->start,
				     .target = block->target,
				     .bytes = block->bytes,
				     .last = block->last,
				     .instructions = block->instructions,
				     .kind = block->kind };
}

#endif
