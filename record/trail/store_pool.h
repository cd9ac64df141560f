/* SPDX-License-Identifier: MIT */
/* A store's memory: one mapping, cut into chunks of one size that are taken and given back. */
#ifndef RECORD_TRAIL_STORE_POOL_H
#define RECORD_TRAIL_STORE_POOL_H

#include <stddef.h>
#include <stdint.h>

#define NO_CHUNK 0u /* chunks count from 1 */

struct store_pool {
	uint8_t *chunks; /* the first */
	uint32_t chunk_bytes;
	uint32_t count, free;
	uint32_t first_free; /* each free one names the next in its first word */
	uint32_t never_used; /* from this one on */
};

/* As many chunks as `bytes` from `memory` hold. */
void store_pool_init(struct store_pool *pool, uint8_t *memory, size_t bytes, uint32_t chunk_bytes);

/* A free one, with undefined contents, or NO_CHUNK. */
uint32_t store_pool_take(struct store_pool *pool);
void store_pool_give(struct store_pool *pool, uint32_t chunk);

static inline void *store_pool_at(const struct store_pool *pool, uint32_t chunk)
{
	return pool->chunks + (size_t)(chunk - 1) * pool->chunk_bytes;
}

#endif
