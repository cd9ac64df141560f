/* SPDX-License-Identifier: MIT */
/*
 * What the ids of a trail's blocks, and of its paths, mean (abi/trail.h): the tables that a trace
 * defines, one for each space of a process.
 *
 * One thread at a time fills a table; any number may read it afterwards.
 */
#ifndef TRACE_TRAIL_TABLE_H
#define TRACE_TRAIL_TABLE_H

#include "abi/trail.h"

#include <stddef.h>
#include <stdint.h>

#define TRAIL_BLOCKS_MAX                                                                           \
	(1u << 28) /* of one space: larger ids are damage, not a reason to take memory */

#define TRAIL_SPACES_MAX 65536u /* of a trace */

struct trail_block {
	uint64_t start, target;
	uint32_t code; /* index of its bytes in the table's */
	uint16_t bytes, last, instructions;
	uint8_t kind;
	uint8_t flags; /* BLOCK_* */
};

#define BLOCK_IS_DEFINED 1
#define BLOCK_HAS_CODE 2
/*
 * It is a path: `code` is the index of its ids, `instructions` their number; `start` is that of its
 * first block, `target` the id of its last.
 */
#define BLOCK_IS_PATH 4

/*
 * When a table's blocks ran, by what came and went of the process's modules until then (struct
 * fact_process): between the first `from` of them and the first `to`, or when the same modules were
 * there again. Zeroed: at any time.
 */
struct trail_era {
	uint32_t number;   /* of the process's eras, from 0 on: an index */
	uint32_t from, to; /* to 0: all of them */
};

struct trail_table {
	struct trail_block *blocks; /* by id */
	uint32_t count;		    /* ids below it may be defined */
	uint32_t defined;
	uint32_t paths; /* of these */
	/* so that less may be lost between two ids, for all of them to stay small */
	int is_of_many;
	size_t room;
	uint8_t *code;
	size_t code_bytes, code_room;
	uint32_t number; /* of a trace's tables, from 0 on: an index; set once all are read */
	struct trail_era era;
};

/* Whether a block can be so: it has an instruction at least, and the last begins in it. */
int trail_entry_is_sane(const struct trail_entry *entry);

/*
 * Take in one trail:define. The same definition given again is fine. Returns 0, -ENOMEM; -EINVAL
 * for an impossible one, or one whose id is far beyond all that are defined; -EEXIST for an id that
 * means something else already. The definitions before it in the run are taken in.
 */
int trail_table_define(struct trail_table *table, uint32_t first, const uint8_t *run, size_t bytes);
void trail_table_release(struct trail_table *table);

/* Whether a block, or a path, is what the entry defines; `code` follows the entry, or is NULL. */
int trail_table_is_same(const struct trail_table *table, const struct trail_block *block,
			const struct trail_entry *entry, const uint8_t *code);

/* The block of an id, or NULL: also where it is a path. */
static inline const struct trail_block *trail_table_block(const struct trail_table *table,
							  uint32_t id)
{
	if (id >= table->count || !(table->blocks[id].flags & BLOCK_IS_DEFINED))
		return NULL;
	return &table->blocks[id];
}

/* The block's code, `bytes` of it, or NULL where it is not known. */
static inline const uint8_t *trail_table_code(const struct trail_table *table,
					      const struct trail_block *block)
{
	return block->flags & BLOCK_HAS_CODE ? table->code + block->code : NULL;
}

/* The path of an id, or NULL. */
static inline const struct trail_block *trail_table_path(const struct trail_table *table,
							 uint32_t id)
{
	if (id >= table->count || !(table->blocks[id].flags & BLOCK_IS_PATH))
		return NULL;
	return &table->blocks[id];
}

/* Its blocks' ids, path->instructions of them, each to be read with load_u32(). */
static inline const uint8_t *trail_table_path_ids(const struct trail_table *table,
						  const struct trail_block *path)
{
	return table->code + path->code;
}

/* Whether code at `to` may run right after the block, with nothing between. */
static inline int trail_block_leads(const struct trail_block *block, uint64_t to)
{
	uint64_t next = block->start + block->bytes;

	switch (block->kind) {
	case TRAIL_FALL:
		return to == next;
	case TRAIL_SYSCALL:
		return to == next || to >= TRAIL_KERNEL;
	case TRAIL_JUMP:
	case TRAIL_CALL:
		return to == block->target;
	case TRAIL_BRANCH:
		return to == block->target || to == next;
	case TRAIL_STOP:
		return 0;
	default:
		return 1;
	}
}

#endif
