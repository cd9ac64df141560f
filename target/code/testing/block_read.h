/* SPDX-License-Identifier: MIT */
#ifndef TARGET_CODE_TESTING_BLOCK_READ_H
#define TARGET_CODE_TESTING_BLOCK_READ_H

#include "target/code/block.h"

#include <errno.h>

/*
 * Fill in *entry for the block that begins at `start` with code[left], of no more than `most`
 * instructions, and TRAIL_BLOCK_INSTRUCTIONS_MAX. One whose bytes can't be read as instructions
 * further on ends before these, as TRAIL_FALL. Returns 0, or -EILSEQ where not even the first can
 * be read.
 */
static inline int block_read(struct trail_entry *entry, uint64_t start, const uint8_t *code,
			     size_t left, unsigned int most)
{
	*entry = (struct trail_entry){ .start = start };
	if (most > TRAIL_BLOCK_INSTRUCTIONS_MAX)
		most = TRAIL_BLOCK_INSTRUCTIONS_MAX;
	while (entry->instructions < most && entry->kind == TRAIL_FALL) {
		struct block_insn insn;
		uint64_t at = start + entry->bytes;

		if (block_insn(&insn, at, code + entry->bytes, left - entry->bytes))
			break;
		entry->last = entry->bytes;
		entry->bytes = (uint16_t)(entry->bytes + insn.bytes);
		entry->instructions++;
		entry->kind = insn.kind;
		entry->target = insn.target;
	}
	return entry->instructions ? 0 : -EILSEQ;
}

#endif
