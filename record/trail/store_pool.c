/* SPDX-License-Identifier: MIT */
#include "record/trail/store_pool.h"

void store_pool_init(struct store_pool *pool, uint8_t *memory, size_t bytes, uint32_t chunk_bytes)
{
	*pool = (struct store_pool){ .chunks = memory,
				     .chunk_bytes = chunk_bytes,
				     .count = (uint32_t)(bytes / chunk_bytes),
				     .never_used = 1 };
	pool->free = pool->count;
}

uint32_t store_pool_take(struct store_pool *pool)
{
	uint32_t chunk = pool->first_free;

	if (!pool->free)
		return NO_CHUNK;
	pool->free--;
	if (!chunk)
		return pool->never_used++;
	pool->first_free = *(uint32_t *)store_pool_at(pool, chunk);
	return chunk;
}

void store_pool_give(struct store_pool *pool, uint32_t chunk)
{
	*(uint32_t *)store_pool_at(pool, chunk) = pool->first_free;
	pool->first_free = chunk;
	pool->free++;
}
