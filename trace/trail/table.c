/* SPDX-License-Identifier: MIT */
#include "trace/trail/table.h"

#include "base/array.h"
#include "trace/packet_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * Of ids, beside as many as are defined: in one table, and in one of many, which together take
 * memory.
 */
#define GAP_MAX 2048u
#define GAP_MANY_MAX 64u

/* Ids are given one after the other; what stood between may be lost, but not most of it. */
static int is_near(const struct trail_table *table, uint32_t id)
{
	uint64_t gap = table->is_of_many ? GAP_MANY_MAX : GAP_MAX;

	return id < TRAIL_BLOCKS_MAX && id / 2 <= table->defined + gap;
}

/* Where the code was put; -ENOMEM. */
static int64_t code_add(struct trail_table *table, const uint8_t *code, size_t bytes)
{
	size_t at = table->code_bytes;

	if (at + bytes > UINT32_MAX)
		return -ENOMEM;
	if (array_grow(&table->code, &table->code_room, at + bytes, 1))
		return -ENOMEM;
	memcpy(table->code + at, code, bytes);
	table->code_bytes += bytes;
	return (int64_t)at;
}

int trail_entry_is_sane(const struct trail_entry *entry)
{
	return entry->kind < TRAIL_KINDS && entry->instructions &&
	       entry->instructions <= TRAIL_BLOCK_INSTRUCTIONS_MAX &&
	       entry->bytes >= entry->instructions && entry->bytes <= TRAIL_BLOCK_BYTES_MAX &&
	       entry->last < entry->bytes && entry->last >= entry->instructions - 1u &&
	       entry->start + entry->bytes >= entry->start;
}

/* Whether a path can be so, except its ids. */
static int trail_entry_is_path(const struct trail_entry *entry)
{
	return entry->kind == TRAIL_PATH && entry->flags & TRAIL_HAS_CODE && entry->instructions &&
	       entry->instructions <= TRAIL_PATH_BLOCKS_MAX &&
	       entry->bytes == 4 * entry->instructions && !entry->start && !entry->target &&
	       !entry->last;
}

/* Whether a path's ids are blocks that lead from one to the next. */
static int is_walked(const struct trail_table *table, const uint8_t *ids, uint32_t count)
{
	const struct trail_block *before = NULL;

	for (uint32_t i = 0; i < count; i++) {
		const struct trail_block *block = trail_table_block(table, load_u32(ids + 4 * i));

		if (!block || (before && !trail_block_leads(before, block->start)))
			return 0;
		before = block;
	}
	return 1;
}

int trail_table_is_same(const struct trail_table *table, const struct trail_block *block,
			const struct trail_entry *entry, const uint8_t *code)
{
	const uint8_t *known = trail_table_code(table, block);

	if (entry->kind == TRAIL_PATH || block->flags & BLOCK_IS_PATH)
		return entry->kind == TRAIL_PATH && block->flags & BLOCK_IS_PATH &&
		       block->instructions == entry->instructions &&
		       !memcmp(trail_table_path_ids(table, block), code, entry->bytes);
	return block->start == entry->start && block->target == entry->target &&
	       block->bytes == entry->bytes && block->last == entry->last &&
	       block->instructions == entry->instructions && block->kind == entry->kind &&
	       !known == !code && (!code || !memcmp(known, code, entry->bytes));
}

/* A block or a path. */
static const struct trail_block *known(const struct trail_table *table, uint32_t id)
{
	const struct trail_block *block = trail_table_block(table, id);

	return block ? block : trail_table_path(table, id);
}

static int put(struct trail_table *table, uint32_t id, const struct trail_entry *entry,
	       const uint8_t *code)
{
	const struct trail_block *before = known(table, id);
	int is_path = entry->kind == TRAIL_PATH;
	struct trail_block *made;
	int64_t at = 0;

	if (before)
		return trail_table_is_same(table, before, entry, code) ? 0 : -EEXIST;
	if (array_grow_zeroed(&table->blocks, &table->room, id + 1ul, sizeof(*table->blocks)))
		return -ENOMEM;
	if (code)
		at = code_add(table, code, entry->bytes);
	if (at < 0)
		return -ENOMEM;
	made = &table->blocks[id];
	*made = (struct trail_block){
		.start = entry->start,
		.target = entry->target,
		.code = (uint32_t)at,
		.bytes = entry->bytes,
		.last = entry->last,
		.instructions = entry->instructions,
		.kind = entry->kind,
		.flags = (uint8_t)(is_path ? BLOCK_IS_PATH
					   : BLOCK_IS_DEFINED | (code ? BLOCK_HAS_CODE : 0)),
	};
	if (is_path) {
		made->start = table->blocks[load_u32(code)].start;
		made->target = load_u32(code + entry->bytes - 4);
		table->paths++;
	}
	table->defined++;
	if (table->count <= id)
		table->count = id + 1;
	return 0;
}

/* An entry, and what follows it. */
static int can_be(const struct trail_table *table, const struct trail_entry *entry,
		  const uint8_t *code)
{
	return entry->kind == TRAIL_PATH
		       ? trail_entry_is_path(entry) && is_walked(table, code, entry->instructions)
		       : trail_entry_is_sane(entry);
}

int trail_table_define(struct trail_table *table, uint32_t first, const uint8_t *run, size_t bytes)
{
	for (uint32_t id = first; bytes; id++) {
		struct trail_entry entry;
		size_t code;
		int err;

		if (bytes < sizeof(entry) || !is_near(table, id))
			return -EINVAL;
		memcpy(&entry, run, sizeof(entry));
		run += sizeof(entry);
		bytes -= sizeof(entry);
		code = entry.flags & TRAIL_HAS_CODE ? entry.bytes : 0;
		if (bytes < code || !can_be(table, &entry, run))
			return -EINVAL;
		err = put(table, id, &entry, code ? run : NULL);
		if (err)
			return err;
		run += code;
		bytes -= code;
	}
	return 0;
}

void trail_table_release(struct trail_table *table)
{
	free(table->blocks);
	free(table->code);
	*table = (struct trail_table){ 0 };
}
