/* SPDX-License-Identifier: MIT */
#include "record/trail/store_blocks.h"

#include <errno.h>
#include <string.h>

/* A chunk of blocks, one after the other. */
struct block_chunk {
	uint32_t next, used; /* used: of `bytes` */
	uint8_t bytes[];
};

#define PLACE_UNIT 8u /* places count these, in the pool; chained ids have PLACE_FREE set */
#define PLACE_FREE (UINT64_C(1) << 63)

size_t store_blocks_bytes(uint32_t chunks, uint32_t slots)
{
	return ((size_t)chunks + slots) * sizeof(uint32_t);
}

void store_blocks_init(struct store_blocks *blocks, struct store_pool *pool, void *memory,
		       uint32_t chunks, uint32_t slots)
{
	*blocks = (struct store_blocks){ .pool = pool,
					 .slots = memory,
					 .slot_count = slots,
					 .map = (uint32_t *)memory + slots };
	memset(memory, 0, store_blocks_bytes(chunks, slots));
}

/* Of all of it. */
static uint32_t bytes_of(const struct trail_entry *entry)
{
	uint32_t code = entry->flags & TRAIL_HAS_CODE ? entry->bytes : 0;

	return ((uint32_t)sizeof(struct store_block) + code + 7) & ~7u;
}

/* ---- ids and their places ---- */

static uint32_t ids_a_chunk(const struct store_blocks *blocks)
{
	return blocks->pool->chunk_bytes / (uint32_t)sizeof(uint64_t);
}

static uint64_t *place_of(const struct store_blocks *blocks, uint32_t id)
{
	uint64_t *places = store_pool_at(blocks->pool, blocks->map[id / ids_a_chunk(blocks)]);

	return &places[id % ids_a_chunk(blocks)];
}

struct store_block *store_blocks_at(const struct store_blocks *blocks, uint32_t id)
{
	return (struct store_block *)(blocks->pool->chunks + *place_of(blocks, id) * PLACE_UNIT);
}

static void place_set(struct store_blocks *blocks, const struct store_block *block)
{
	*place_of(blocks, block->id) = (uint64_t)((const uint8_t *)block - blocks->pool->chunks) /
				       PLACE_UNIT;
}

static void id_free(struct store_blocks *blocks, uint32_t id)
{
	*place_of(blocks, id) = PLACE_FREE | blocks->free_id;
	blocks->free_id = id + 1;
}

static int64_t id_take(struct store_blocks *blocks)
{
	uint32_t chunk, id;

	if (!blocks->free_id && blocks->ids == blocks->map_count * ids_a_chunk(blocks)) {
		chunk = blocks->wants_chunk(blocks->owner);
		if (!chunk)
			return -ENOMEM;
		blocks->map[blocks->map_count++] = chunk;
		blocks->chunks++;
	}
	if (!blocks->free_id)
		return blocks->ids++;
	id = blocks->free_id - 1;
	blocks->free_id = (uint32_t)*place_of(blocks, id);
	return id;
}

/* ---- slots ---- */

static uint64_t hash_of(uint64_t start, const uint8_t *code, size_t bytes)
{
	uint64_t hash = start * 0x9e3779b97f4a7c15ull, last = 0;
	size_t at = 0;

	for (; at + sizeof(last) <= bytes; at += sizeof(last)) {
		memcpy(&last, code + at, sizeof(last));
		hash = (hash ^ last) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29; /* the upper half of a word would only move upwards */
	}
	last = 0;
	if (at < bytes)
		memcpy(&last, code + at, bytes - at);
	hash = (hash ^ last) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static const uint8_t *code_of(const struct store_block *block)
{
	return block->entry.flags & TRAIL_HAS_CODE ? block->code : NULL;
}

static uint32_t *slot_of(struct store_blocks *blocks, const struct trail_entry *entry,
			 const uint8_t *code)
{
	return &blocks->slots[hash_of(entry->start, code, code ? entry->bytes : 0) &
			      (blocks->slot_count - 1)];
}

static void slot_add(struct store_blocks *blocks, struct store_block *block)
{
	uint32_t *slot = slot_of(blocks, &block->entry, code_of(block));

	block->next = *slot;
	*slot = block->id + 1;
}

static struct store_block *find(struct store_blocks *blocks, const struct trail_entry *entry,
				const uint8_t *code, uint32_t from)
{
	uint32_t at = *slot_of(blocks, entry, code);

	while (at) {
		struct store_block *block = store_blocks_at(blocks, at - 1);

		if (block->from == from && !memcmp(&block->entry, entry, sizeof(*entry)) &&
		    (!code || !memcmp(block->code, code, entry->bytes)))
			return block;
		at = block->next;
	}
	return NULL;
}

/* ---- blocks ---- */

static uint32_t chunk_room(const struct store_blocks *blocks)
{
	return blocks->pool->chunk_bytes - (uint32_t)sizeof(struct block_chunk);
}

/* Room for `bytes` in the last chunk, or one that is new. */
static struct block_chunk *room_for(struct store_blocks *blocks, uint32_t bytes)
{
	struct block_chunk *last = blocks->last ? store_pool_at(blocks->pool, blocks->last) : NULL;
	uint32_t chunk;

	if (last && last->used + bytes <= chunk_room(blocks))
		return last;
	chunk = blocks->wants_chunk(blocks->owner);
	if (!chunk)
		return NULL;
	/* what was swept for it may have made room in another */
	last = blocks->last ? store_pool_at(blocks->pool, blocks->last) : NULL;
	if (last && last->used + bytes <= chunk_room(blocks)) {
		store_pool_give(blocks->pool, chunk);
		return last;
	}
	if (last)
		last->next = chunk;
	else
		blocks->first = chunk;
	blocks->last = chunk;
	blocks->chunks++;
	last = store_pool_at(blocks->pool, chunk);
	*last = (struct block_chunk){ 0 };
	return last;
}

int64_t store_blocks_hold(struct store_blocks *blocks, const struct trail_entry *entry,
			  const uint8_t *code, uint32_t from)
{
	struct trail_entry mine = *entry;
	struct store_block *block;
	struct block_chunk *chunk;
	uint32_t bytes;
	int64_t id;

	mine.flags = code ? TRAIL_HAS_CODE : 0;
	block = find(blocks, &mine, code, from);
	bytes = bytes_of(&mine);
	if (block) {
		if (!block->refs++)
			blocks->dead_bytes -= bytes;
		return block->id;
	}
	id = id_take(blocks);
	if (id < 0)
		return id;
	chunk = room_for(blocks, bytes);
	if (!chunk) {
		id_free(blocks, (uint32_t)id);
		return -ENOMEM;
	}
	block = (struct store_block *)(chunk->bytes + chunk->used);
	chunk->used += bytes;
	blocks->used_bytes += bytes;
	*block = (struct store_block){ .id = (uint32_t)id, .refs = 1, .from = from, .entry = mine };
	if (code)
		memcpy(block->code, code, entry->bytes);
	place_set(blocks, block);
	slot_add(blocks, block);
	return id;
}

void store_blocks_drop(struct store_blocks *blocks, uint32_t id)
{
	struct store_block *block = store_blocks_at(blocks, id);

	if (!--block->refs)
		blocks->dead_bytes += bytes_of(&block->entry);
}

/* Where what is kept is moved to: never beyond where it is read. */
struct target {
	uint32_t chunk;
	uint32_t used;
};

static void keep(struct store_blocks *blocks, struct target *to, const struct store_block *block)
{
	struct block_chunk *chunk = store_pool_at(blocks->pool, to->chunk);
	uint32_t bytes = bytes_of(&block->entry);
	struct store_block *moved;

	if (to->used + bytes > chunk_room(blocks)) {
		chunk->used = to->used;
		to->chunk = chunk->next;
		to->used = 0;
		chunk = store_pool_at(blocks->pool, to->chunk);
	}
	moved = (struct store_block *)(chunk->bytes + to->used);
	memmove(moved, block, bytes);
	to->used += bytes;
	place_set(blocks, moved);
	slot_add(blocks, moved);
}

/* The chunks behind the last that is needed, or all. */
static void give_behind(struct store_blocks *blocks, const struct target *to)
{
	uint32_t chunk = blocks->first, next;

	blocks->last = to->used ? to->chunk : NO_CHUNK;
	if (to->used) {
		struct block_chunk *last = store_pool_at(blocks->pool, to->chunk);

		chunk = last->next;
		last->next = NO_CHUNK;
		last->used = to->used;
	} else {
		blocks->first = NO_CHUNK;
	}
	for (; chunk; chunk = next) {
		next = ((struct block_chunk *)store_pool_at(blocks->pool, chunk))->next;
		store_pool_give(blocks->pool, chunk);
		blocks->chunks--;
	}
}

void store_blocks_sweep(struct store_blocks *blocks)
{
	struct target to = { .chunk = blocks->first };
	uint32_t next;

	if (!blocks->first)
		return;
	memset(blocks->slots, 0, blocks->slot_count * sizeof(*blocks->slots));
	for (uint32_t at = blocks->first; at; at = next) {
		struct block_chunk *chunk = store_pool_at(blocks->pool, at);
		uint32_t used = chunk->used, bytes;

		next = chunk->next;
		for (uint32_t i = 0; i < used; i += bytes) {
			struct store_block *block = (struct store_block *)(chunk->bytes + i);

			bytes = bytes_of(&block->entry);
			if (block->refs)
				keep(blocks, &to, block);
			else
				id_free(blocks, block->id);
		}
	}
	give_behind(blocks, &to);
	blocks->used_bytes -= blocks->dead_bytes;
	blocks->dead_bytes = 0;
}
