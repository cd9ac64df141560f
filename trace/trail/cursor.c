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

/* The run of a word of a part: its blocks, as far as they are of the part. */
static inline void run_at(struct trail_run *run, const struct trail_part *part, uint32_t word,
			  uint32_t first)
{
	const struct trail_table *table = part->table;
	const uint8_t *ids = part->ids + 4 * (size_t)word;
	const struct trail_block *at = &table->blocks[load_u32(ids)];
	uint32_t left = part->count - first, count = 1;

	if (word + 1u < part->words)
		__builtin_prefetch(&table->blocks[load_u32(ids + 4)]);
	if (at->flags & BLOCK_IS_PATH) {
		uint32_t skip = word ? 0 : part->skip;

		ids = trail_table_path_ids(table, at) + 4 * (size_t)skip;
		count = at->instructions - skip;
	}
	run->part = part;
	run->ids = ids;
	run->first = first;
	run->count = count < left ? count : left;
	run->sure = run->count - (count >= left);
	run->word = word;
}

/* How many blocks a word of a part is. */
static uint32_t word_blocks(const struct trail_part *part, uint32_t word)
{
	const struct trail_block *at = &part->table->blocks[load_u32(part->ids + 4 * (size_t)word)];

	return (at->flags & BLOCK_IS_PATH ? at->instructions : 1u) - (word ? 0 : part->skip);
}

/*
 * That of a block of a part: near the last one that was looked at, or counted from the part's
 * begin.
 */
static void run_find(struct trail_run *run, const struct trail_part *part, uint32_t id)
{
	if (!part->has_paths) {
		*run = (struct trail_run){ .part = part,
					   .ids = part->ids,
					   .count = part->count,
					   .sure = part->count - 1 };
		return;
	}
	if (run->part == part && run->word && id + 1 == run->first)
		run_at(run, part, run->word - 1, run->first - word_blocks(part, run->word - 1));
	else if (run->part != part || id < run->first)
		run_at(run, part, 0, 0);
	while (id - run->first >= run->count)
		run_at(run, part, run->word + 1, run->first + run->count);
}

/* That of the cursor's block, in its part. */
static inline void run_settle(struct trail_cursor *cursor, const struct trail_part *part)
{
	struct trail_run *run = &cursor->run;

	if (__builtin_expect(run->part != part || cursor->id - run->first >= run->count, 0))
		run_find(run, part, cursor->id);
}

const struct trail_run *trail_cursor_run(struct trail_cursor *cursor)
{
	run_settle(cursor, &cursor->path->parts[cursor->part]);
	return &cursor->run;
}

uint32_t trail_part_id(const struct trail_part *part, uint32_t id)
{
	struct trail_run run = { 0 };

	run_find(&run, part, id);
	return trail_run_id(&run, id);
}

/* The block at the cursor, whose run is settled, except for how much of it ran. */
static inline const struct trail_block *
block_at(const struct trail_cursor *cursor, const struct trail_part *part, struct trail_item *item)
{
	const struct trail_table *table = part->table;
	uint32_t id = trail_run_id(&cursor->run, cursor->id);
	const struct trail_block *block = &table->blocks[id];

	item->block = block;
	item->table = table;
	item->between = NULL;
	item->index = part->before + cursor->id;
	item->ticks = part->ticks;
	item->id = id;
	return block;
}

/* The item at the cursor, which is not at the end. */
static void item_at(struct trail_cursor *cursor, struct trail_item *item)
{
	const struct trail_part *part = &cursor->path->parts[cursor->part];

	if (part->count) {
		run_settle(cursor, part);
		item->ran = ran(cursor->path, cursor->part, cursor->id,
				block_at(cursor, part, item));
		return;
	}
	*item = (struct trail_item){ .between = &part->between,
				     .table = part->table,
				     .index = part->before + cursor->id,
				     .ticks = part->ticks };
}

/*
 * trail_next() where it is not the next block of the same run. Apart from it, so that it needs no
 * registers kept for this.
 */
static __attribute__((noinline)) int
step_over(struct trail_cursor *cursor, const struct trail_part *part, struct trail_item *item)
{
	item_at(cursor, item);
	if (++cursor->id < part->count)
		return 1;
	cursor->part++;
	cursor->id = 0;
	return 1;
}

int trail_next(struct trail_cursor *cursor, struct trail_item *item)
{
	const struct trail_run *run = &cursor->run;
	const struct trail_part *part;

	if (cursor->part >= cursor->path->count)
		return 0;
	part = &cursor->path->parts[cursor->part];
	if (__builtin_expect(run->part == part && cursor->id - run->first < run->sure, 1)) {
		item->ran = block_at(cursor, part, item)->instructions;
		cursor->id++;
		return 1;
	}
	return step_over(cursor, part, item);
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
