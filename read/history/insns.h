/* SPDX-License-Identifier: MIT */
/*
 * The instructions of a module that ran, by address, and how often each did: blocks taken apart and
 * put together.
 *
 * One thread at a time uses them.
 */
#ifndef READ_HISTORY_INSNS_H
#define READ_HISTORY_INSNS_H

#include "read/history/block_counts.h"

#include <stddef.h>
#include <stdint.h>

struct insn {
	uint64_t address; /* as linked */
	uint64_t target;  /* as linked; where the kind leads to one, else 0 */
	uint64_t ran;
	uint64_t taken, fell; /* of a conditional jump; less than `ran` where a trail has gaps */
	uint8_t bytes;
	uint8_t kind; /* enum trail_kind */
};

/* Zeroed: none yet. */
struct insns {
	struct insn *all;
	size_t count, room;
	size_t settled; /* so many are by address, each once */
};

/*
 * Add what ran of a block: its counts, and the table's cuts of its id, cuts[cut_count]. `code` is
 * all of its code, `base` the module's. 0, -ENOMEM; -EILSEQ where the code can't be read, with what
 * is before it added.
 */
int insns_add(struct insns *insns, const struct trail_block *block, const uint8_t *code,
	      uint64_t base, const struct ran_count *count, const struct ran_cut *cuts,
	      size_t cut_count);

/* Bring all in order; before they are read. */
void insns_settle(struct insns *insns);
void insns_release(struct insns *insns);

/* The place of the first that is not below an address. */
size_t insns_below(const struct insns *insns, uint64_t address);

#endif
