/* SPDX-License-Identifier: MIT */
#include "trace/trail/path.h"

/* How much of the last block of a part ran: the event behind it says. */
static uint16_t ran(const struct trail_path *path, size_t part, uint32_t id,
		    const struct trail_block *block)
{
	const struct trail_part *next = part + 1 < path->count ? &path->parts[part + 1] : NULL;

	if (id + 1 < path->parts[part].count || !next || next->count)
		return block->instructions;
	return (uint16_t)(block->instructions - next->between.left);
}

/* The block at the cursor. All but the last of a part's are whole; that one an event may have cut. */
static inline void block_at(const struct trail_cursor *cursor, const struct trail_part *part,
			    int is_whole, struct trail_item *item)
{
	const struct trail_table *table = part->table;
	uint32_t id = load_u32(part->ids + 4 * (size_t)cursor->id);
	const struct trail_block *block = &table->blocks[id];

	item->block = block;
	item->table = table;
	item->between = NULL;
	item->index = part->before + cursor->id;
	item->ticks = part->ticks;
	item->id = id;
	item->ran = is_whole ? block->instructions
			     : ran(cursor->path, cursor->part, cursor->id, block);
}

/* The item that stands at the cursor, which is not at the end. */
static void item_at(const struct trail_cursor *cursor, struct trail_item *item)
{
	const struct trail_part *part = &cursor->path->parts[cursor->part];

	if (part->count) {
		block_at(cursor, part, 0, item);
		return;
	}
	*item = (struct trail_item){ .between = &part->between,
				     .table = part->table,
				     .index = part->before + cursor->id,
				     .ticks = part->ticks };
}

int trail_next(struct trail_cursor *cursor, struct trail_item *item)
{
	const struct trail_part *part;

	if (cursor->part >= cursor->path->count)
		return 0;
	part = &cursor->path->parts[cursor->part];
	if (__builtin_expect(cursor->id + 1 < part->count, 1)) {
		block_at(cursor, part, 1, item);
		cursor->id++;
		return 1;
	}
	item_at(cursor, item);
	cursor->part++;
	cursor->id = 0;
	return 1;
}

int trail_previous(struct trail_cursor *cursor, struct trail_item *item)
{
	if (cursor->id) {
		cursor->id--;
	} else {
		uint32_t count;

		if (!cursor->part)
			return 0;
		count = cursor->path->parts[--cursor->part].count;
		cursor->id = count ? count - 1 : 0;
	}
	item_at(cursor, item);
	return 1;
}

void trail_seek_end(struct trail_cursor *cursor)
{
	cursor->part = cursor->path->count;
	cursor->id = 0;
}

void trail_seek(struct trail_cursor *cursor, uint64_t index)
{
	const struct trail_path *path = cursor->path;
	size_t low = 0, high = path->count;

	if (index >= path->blocks) {
		trail_seek_end(cursor);
		return;
	}
	/* the last part that begins at or before it: of several, the one that has blocks */
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (path->parts[middle].before <= index)
			low = middle;
		else
			high = middle;
	}
	cursor->part = low;
	cursor->id = (uint32_t)(index - path->parts[low].before);
}
