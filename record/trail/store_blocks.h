/* SPDX-License-Identifier: MIT */
/*
 * A store's table: what the ids of its records mean. An id counts the records that have it, and is
 * another block's when none has: ids are the store's own, and mean nothing outside.
 *
 * It lives in chunks of the store's pool, and takes none by itself when it has to grow: its owner
 * decides what gives way (struct store_blocks.wants_chunk).
 */
#ifndef RECORD_TRAIL_STORE_BLOCKS_H
#define RECORD_TRAIL_STORE_BLOCKS_H

#include "abi/trail.h"
#include "record/trail/store_pool.h"

#include <stddef.h>
#include <stdint.h>

struct store_block {
	uint32_t id, next; /* next in its slot: id + 1, or 0 */
	uint32_t refs;	   /* records that have it */
	uint32_t from;	   /* the epoch's name; STORE_NO_EPOCH */
	struct trail_entry entry;
	uint8_t code[]; /* entry.bytes of it with TRAIL_HAS_CODE */
};

#define STORE_NO_EPOCH UINT32_MAX

#define STORE_BLOCK_BYTES_MAX                                                                      \
	((sizeof(struct store_block) + TRAIL_BLOCK_BYTES_MAX + 7) & ~(size_t)7)

struct store_blocks {
	struct store_pool *pool;
	uint32_t *slots; /* id + 1 by start and code, chained */
	uint32_t slot_count;
	uint32_t *map; /* chunks of places by id */
	uint32_t map_count;
	uint32_t ids;			 /* ever given */
	uint32_t free_id;		 /* + 1: chained in their places */
	uint32_t first, last;		 /* chunks of blocks */
	uint32_t chunks;		 /* of both kinds */
	uint64_t used_bytes, dead_bytes; /* of blocks; of these, of those that no record has */
	/* A chunk for the table; NO_CHUNK: none is free. It may call store_blocks_sweep(). */
	uint32_t (*wants_chunk)(void *owner);
	void *owner;
};

/* Room for slots and map at `memory`, for a pool of `chunks`: how many bytes. */
size_t store_blocks_bytes(uint32_t chunks, uint32_t slots);
void store_blocks_init(struct store_blocks *blocks, struct store_pool *pool, void *memory,
		       uint32_t chunks, uint32_t slots);

/* The id of a block in an epoch, which one more record has now; -ENOMEM where it found no room. */
int64_t store_blocks_hold(struct store_blocks *blocks, const struct trail_entry *entry,
			  const uint8_t *code, uint32_t from);
/* One record less has it. It stays as it is until the next sweep. */
void store_blocks_drop(struct store_blocks *blocks, uint32_t id);

/* Give back the room of blocks that no record has. */
void store_blocks_sweep(struct store_blocks *blocks);

struct store_block *store_blocks_at(const struct store_blocks *blocks, uint32_t id);

#endif
