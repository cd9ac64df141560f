/* SPDX-License-Identifier: MIT */
/*
 * How often each block of a trail ran, where it led, and how much of it: counted by id, in one pass
 * over them.
 *
 * The tables must live longer. One thread at a time uses it.
 */
#ifndef READ_HISTORY_BLOCK_COUNTS_H
#define READ_HISTORY_BLOCK_COUNTS_H

#include "trace/trail/range.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Of a block. The branch of its last instruction, a conditional jump: taken, not known, or else not
 * taken.
 */
struct ran_count {
	uint64_t ran, taken, unknown;
};

/* A block that was left before its end. */
struct ran_cut {
	uint32_t id;
	uint32_t left; /* instructions of it that did not run */
};

struct ran_table {
	const struct trail_table *table;
	struct ran_count *counts; /* by id, table->count of them; of paths: nothing */
	struct ran_cut *cuts;
	size_t cut_count, cut_room;
	/* While a stretch is gone through: paths that ran as wholes, whose `ran` says how often. */
	uint32_t *paths;
	size_t path_count, path_room;
};

/* Zeroed: nothing yet. */
struct ran {
	struct ran_table *tables;
	size_t count, room;
	uint32_t *places; /* by a table's number: where it is in `tables`, and one; 0: it is not */
	size_t place_room;
};

/*
 * Count a stretch of a path, which is left as it was; all are of one trace. 0 or -ENOMEM. Release
 * also after an error.
 */
int block_counts_take(struct ran *ran, const struct trail_range *range);
void block_counts_release(struct ran *ran);

#endif
