/* SPDX-License-Identifier: MIT */
#include "read/history/taken.h"

/* Whether going on at `to` after a block is a branch that was taken. */
static int is_taken(const struct trail_block *block, uint64_t to)
{
	switch (block->kind) {
	case TRAIL_FALL:
	case TRAIL_STOP:
		return 0;
	case TRAIL_SYSCALL:
		return to >= TRAIL_KERNEL;
	case TRAIL_BRANCH:
		return to != block->start + block->bytes;
	default:
		return 1;
	}
}

/* The thread continues at `to`: 0 if it is unknown how it came there. */
static int goes_on(const struct taken_sink *sink, const struct trail_block *before, uint64_t to)
{
	if (!before || !trail_block_leads(before, to))
		return 0;
	if (is_taken(before, to))
		sink->branch(sink->data, before->start + before->last, to);
	return 1;
}

/* The event behind `before`: whether code is straight over it. */
static int event(const struct taken_sink *sink, const struct trail_block *before,
		 const struct trail_between *between)
{
	switch ((enum trail_event)between->event) {
	case TRAIL_DEPART:
	case TRAIL_ARRIVE:
	case TRAIL_FORK:
	case TRAIL_SYSCALLED:
	case TRAIL_SIGNAL:
		if (before && between->at && !between->left && !goes_on(sink, before, between->at))
			return 0;
		return between->event != TRAIL_SIGNAL;
	default:
		return 0;
	}
}

/* Tell of the item's era if it is another. */
static int era(const struct taken_sink *sink, const struct trail_table **last,
	       const struct trail_item *item)
{
	const struct trail_table *before = *last;

	if (before == item->table || !item->block)
		return 0;
	*last = item->table;
	if (before && before->era.number == item->table->era.number)
		return 0;
	return sink->era(sink->data, item->table);
}

int taken_walk(struct export *export, const struct export_thread *thread,
	       const struct taken_sink *sink)
{
	struct trail_range range = thread->range;
	const struct trail_block *before = NULL;
	const struct trail_table *table = NULL;
	uint64_t blocks = 0;
	struct trail_item item;
	int err = 0;

	while (trail_range_next(&range, &item) && !export->out->error &&
	       !(err = era(sink, &table, &item))) {
		if (!item.block) {
			int is_straight = event(sink, before, item.between);

			if (!is_straight)
				sink->cut(sink->data);
			if (!is_straight || item.between->at)
				before = NULL;
			continue;
		}
		if (before && !goes_on(sink, before, item.block->start))
			sink->cut(sink->data);
		before = item.ran == item.block->instructions ? item.block : NULL;
		export_beat(export, ++blocks);
	}
	sink->cut(sink->data);
	export->done += blocks;
	return err;
}
