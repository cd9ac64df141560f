/* SPDX-License-Identifier: MIT */
#include "read/history/block_counts.h"

#include "base/array.h"
#include "trace/packet_walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct ran_table *table_of(struct ran *ran, const struct trail_table *table)
{
	struct ran_table *added;
	uint32_t *place;

	if (array_grow_zeroed(&ran->places, &ran->place_room, table->number + 1ul,
			      sizeof(*ran->places)))
		return NULL;
	place = &ran->places[table->number];
	if (*place)
		return &ran->tables[*place - 1];
	if (array_grow(&ran->tables, &ran->room, ran->count + 1, sizeof(*ran->tables)))
		return NULL;
	added = &ran->tables[ran->count];
	*added = (struct ran_table){ .table = table };
	added->counts = calloc((size_t)table->count + 1, sizeof(*added->counts));
	if (!added->counts)
		return NULL;
	*place = (uint32_t)++ran->count;
	return added;
}

/*
 * Blocks `from` up to before `to` of a run that another follows. A block that leads nowhere has
 * target 0.
 */
static void count_run(struct ran_table *to, const uint8_t *ids, uint32_t from, uint32_t end)
{
	const struct trail_block *blocks = to->table->blocks;
	struct ran_count *counts = to->counts;
	uint32_t id = load_u32(ids + 4 * (size_t)from);

	for (uint32_t i = from; i < end; i++) {
		uint32_t next = load_u32(ids + 4 * ((size_t)i + 1));

		counts[id].ran++;
		counts[id].taken += blocks[id].target == blocks[next].start;
		id = next;
	}
}

/* A whole path that another block follows: its inner blocks are counted when all are known. */
static int count_path(struct ran_table *to, uint32_t path, uint64_t next)
{
	const struct trail_block *blocks = to->table->blocks;
	uint32_t last = (uint32_t)blocks[path].target;

	if (!to->counts[path].ran) {
		if (array_grow(&to->paths, &to->path_room, to->path_count + 1, sizeof(*to->paths)))
			return -ENOMEM;
		to->paths[to->path_count++] = path;
	}
	to->counts[path].ran++;
	to->counts[last].ran++;
	to->counts[last].taken += blocks[last].target == next;
	return 0;
}

/* Of all paths, the blocks but the last. */
static void spread(struct ran_table *to)
{
	const struct trail_block *blocks = to->table->blocks;

	for (size_t i = 0; i < to->path_count; i++) {
		const struct trail_block *path = &blocks[to->paths[i]];
		const uint8_t *ids = trail_table_path_ids(to->table, path);
		uint64_t ran = to->counts[to->paths[i]].ran;

		for (uint32_t at = 0; at + 1 < path->instructions; at++) {
			uint32_t id = load_u32(ids + 4 * at), next = load_u32(ids + 4 * at + 4);

			to->counts[id].ran += ran;
			if (blocks[id].target == blocks[next].start)
				to->counts[id].taken += ran;
		}
		to->counts[to->paths[i]].ran = 0;
	}
	to->path_count = 0;
}

/* The same as count_run() of a part that has paths. */
static int count_paths(struct ran_table *to, const struct trail_part *part, uint32_t from,
		       uint32_t end)
{
	const struct trail_block *blocks = to->table->blocks;
	struct trail_cursor at = { .path = &(struct trail_path){ .parts = (void *)part } };
	int err = 0;

	for (at.id = from; at.id < end && !err;) {
		const struct trail_run run = *trail_cursor_run(&at);
		uint32_t id = load_u32(part->ids + 4 * (size_t)run.word);
		uint32_t behind = run.first + run.count;
		int is_whole = run.first >= from && behind <= end && run.count > 1 &&
			       run.count == blocks[id].instructions;
		uint32_t to_id = behind < end ? behind : end, last;
		uint64_t next;

		if (!is_whole)
			count_run(to, run.ids, at.id - run.first, to_id - run.first - 1);
		last = trail_run_id(&run, to_id - 1);
		at.id = to_id;
		next = blocks[trail_run_id(trail_cursor_run(&at), to_id)].start;
		if (is_whole) {
			err = count_path(to, id, next);
			continue;
		}
		to->counts[last].ran++;
		to->counts[last].taken += blocks[last].target == next;
	}
	return err;
}

/* Blocks `from` up to before `end`, which the rest of the part follows. */
static int count_on(struct ran_table *to, const struct trail_part *part, uint32_t from,
		    uint32_t end)
{
	if (part->has_paths)
		return count_paths(to, part, from, end);
	count_run(to, part->ids, from, end);
	return 0;
}

static void count_way(struct ran_count *count, const struct trail_block *block, uint64_t to)
{
	if (to == block->target)
		count->taken++;
	else if (to != block->start + block->bytes)
		count->unknown++;
}

/* Whether an event shows where the thread came to from the block before. */
static int is_told(const struct trail_between *between)
{
	switch ((enum trail_event)between->event) {
	case TRAIL_DEPART:
	case TRAIL_SIGNAL:
	case TRAIL_FORK:
	case TRAIL_END:
		return between->at != 0;
	default:
		return 0;
	}
}

static int cut_add(struct ran_table *to, uint32_t id, uint32_t left)
{
	if (array_grow(&to->cuts, &to->cut_room, to->cut_count + 1, sizeof(*to->cuts)))
		return -ENOMEM;
	to->cuts[to->cut_count++] = (struct ran_cut){ id, left };
	return 0;
}

/* The last block of a part: the part behind it shows its branch. */
static int count_last(struct ran_table *to, const struct trail_path *path, size_t at)
{
	const struct trail_part *part = &path->parts[at];
	const struct trail_part *next = at + 1 < path->count ? part + 1 : NULL;
	uint32_t id = trail_part_id(part, part->count - 1);
	const struct trail_block *block = &to->table->blocks[id];
	struct ran_count *count = &to->counts[id];

	count->ran++;
	if (!next)
		count->unknown++;
	else if (next->count)
		count_way(count, block, next->table->blocks[trail_part_id(next, 0)].start);
	else if (next->between.left)
		return cut_add(to, id, next->between.left);
	else if (is_told(&next->between))
		count_way(count, block, next->between.at);
	else
		count->unknown++;
	return 0;
}

static int count_part(struct ran *ran, const struct trail_path *path, size_t at, uint32_t from,
		      uint32_t end)
{
	const struct trail_part *part = &path->parts[at];
	struct ran_table *to;
	int err;

	if (from >= end)
		return 0;
	to = table_of(ran, part->table);
	if (!to)
		return -ENOMEM;
	err = count_on(to, part, from, end < part->count ? end : part->count - 1);
	return err || end < part->count ? err : count_last(to, path, at);
}

int block_counts_take(struct ran *ran, const struct trail_range *range)
{
	const struct trail_path *path = range->cursor.path;
	uint32_t from = range->cursor.id;
	int err = 0;

	for (size_t i = range->cursor.part; !err && i < path->count && i <= range->end_part; i++) {
		uint32_t end = path->parts[i].count;

		if (i == range->end_part && range->end_id < end)
			end = range->end_id;
		err = count_part(ran, path, i, from, end);
		from = 0;
	}
	for (size_t i = 0; i < ran->count; i++)
		spread(&ran->tables[i]);
	return err;
}

void block_counts_release(struct ran *ran)
{
	for (size_t i = 0; i < ran->count; i++) {
		free(ran->tables[i].counts);
		free(ran->tables[i].cuts);
		free(ran->tables[i].paths);
	}
	free(ran->tables);
	free(ran->places);
	*ran = (struct ran){ 0 };
}
