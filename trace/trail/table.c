/* SPDX-License-Identifier: MIT */
#include "trace/trail/table.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of ids, beside as many as are defined: in one table, and in one of many, which together take memory. */
#define GAP_MAX 2048u
#define GAP_MANY_MAX 64u

static int blocks_fit(struct trail_table *table, uint32_t count)
{
	size_t before = table->room;

	if (array_grow(&table->blocks, &table->room, count, sizeof(*table->blocks)))
		return -ENOMEM;
	memset(table->blocks + before, 0, (table->room - before) * sizeof(*table->blocks));
	return 0;
}

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

static int is_same(const struct trail_table *table, const struct trail_block *block,
		   const struct trail_entry *entry, const uint8_t *code)
{
	const uint8_t *known = trail_table_code(table, block);

	return block->start == entry->start && block->target == entry->target &&
	       block->bytes == entry->bytes && block->last == entry->last &&
	       block->instructions == entry->instructions && block->kind == entry->kind &&
	       !known == !code && (!code || !memcmp(known, code, entry->bytes));
}

static int put(struct trail_table *table, uint32_t id, const struct trail_entry *entry,
	       const uint8_t *code)
{
	const struct trail_block *before = trail_table_block(table, id);
	int64_t at = 0;

	if (before)
		return is_same(table, before, entry, code) ? 0 : -EEXIST;
	if (blocks_fit(table, id + 1))
		return -ENOMEM;
	if (code)
		at = code_add(table, code, entry->bytes);
	if (at < 0)
		return -ENOMEM;
	table->blocks[id] = (struct trail_block){
		.start = entry->start,
		.target = entry->target,
		.code = (uint32_t)at,
		.bytes = entry->bytes,
		.last = entry->last,
		.instructions = entry->instructions,
		.kind = entry->kind,
		.flags = (uint8_t)(BLOCK_IS_DEFINED | (code ? BLOCK_HAS_CODE : 0)),
	};
	table->defined++;
	if (table->count <= id)
		table->count = id + 1;
	return 0;
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
		if (!trail_entry_is_sane(&entry) || bytes < code)
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
