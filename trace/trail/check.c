/* SPDX-License-Identifier: MIT */
#include "trace/trail/check.h"

#include "trace/packet_walk.h"

/* Whether a block that starts there may come now. */
static inline int may_come(const struct trail_block *before, uint64_t next, uint64_t start)
{
	return before ? trail_block_leads(before, start) : !next || next == start;
}

const char *trail_check_blocks(struct trail_check *check, const struct trail_table *table,
			       const uint8_t *ids, uint32_t count, struct trail_checked *good)
{
	const struct trail_block *before = check->before;
	uint64_t next = check->next;
	const char *why = NULL;
	uint32_t i = 0, more = 0;
	int has_paths = 0;

	if (check->is_over)
		why = "blocks after a trail's end";
	for (; !why && i < count; i++) {
		uint32_t id = load_u32(ids + 4 * (size_t)i);
		const struct trail_block *block = id < table->count ? &table->blocks[id] : NULL;
		int kind = block ? block->flags & (BLOCK_IS_DEFINED | BLOCK_IS_PATH) : 0;

		if (!kind)
			why = "a block that is not defined";
		else if (!may_come(before, next, block->start))
			why = "a block that can't follow the one before";
		else if (more > UINT32_MAX - count - TRAIL_PATH_BLOCKS_MAX)
			why = "more blocks than an event may have";
		if (why)
			break;
		before = block;
		next = 0;
		if (kind == BLOCK_IS_DEFINED)
			continue;
		/* what is within was checked when it was defined */
		has_paths = 1;
		more += block->instructions - 1u;
		before = &table->blocks[block->target];
	}
	*good = (struct trail_checked){ i, i + more, has_paths };
	check->before = before;
	check->next = next;
	return why;
}

/* Whether the rest is of the block before, and the event is at its first instruction. */
static int left_there(const struct trail_check *check, const struct trail_between *between)
{
	const struct trail_block *before = check->before;

	return before && between->left <= before->instructions && between->at >= before->start &&
	       between->at < before->start + before->bytes;
}

/* Where the event says that the thread stood, given what came before. */
static int stood_there(const struct trail_check *check, const struct trail_between *between)
{
	const struct trail_block *before = check->before;

	if (between->left || !between->at)
		return 1;
	if (before)
		return before->kind == TRAIL_STOP || trail_block_leads(before, between->at);
	return !check->next || check->next == between->at;
}

const char *trail_check_event(struct trail_check *check, const struct trail_between *between)
{
	uint64_t next = between->at;

	if (check->is_over)
		return "an event after a trail's end";
	if (between->event == TRAIL_VALUE)
		return NULL;
	if (between->left && !left_there(check, between))
		return "an event that leaves more of a block than there is";
	switch ((enum trail_event)between->event) {
	case TRAIL_SYSCALLED:
		if (check->before && check->before->kind != TRAIL_SYSCALL)
			return "a return from a system call that was not made";
		break;
	case TRAIL_ARRIVE:
	case TRAIL_LOST:
	case TRAIL_GAP:
	case TRAIL_EXEC:
		break;
	case TRAIL_SIGNAL:
		next = between->values[1] ? between->values[1] : next;
		/* fall through */
	default:
		if (!stood_there(check, between))
			return "an event at a place that the thread was not at";
	}
	check->before = NULL;
	check->next = next;
	check->is_over = between->event == TRAIL_END;
	return NULL;
}
