/* SPDX-License-Identifier: MIT */
#include "trace/trail/check.h"

#include "trace/walk.h"

const char *trail_check_blocks(struct trail_check *check, const struct trail_table *table,
			       const uint8_t *ids, uint32_t count, struct trail_checked *good)
{
	const struct trail_block *before = check->before;
	const char *why = NULL;
	uint32_t more = 0;

	*good = (struct trail_checked){ 0 };
	if (check->is_over)
		why = "blocks after a trail's end";
	for (uint32_t i = 0; !why && i < count; i++) {
		uint32_t id = load_u32(ids + 4 * (size_t)i);
		/* of a path, what is within was checked when it was defined */
		const struct trail_block *path = trail_table_path(table, id);
		const struct trail_block *block = path ? path : trail_table_block(table, id);

		if (!block)
			why = "a block that is not defined";
		else if (before ? !trail_block_leads(before, block->start)
				: check->next && check->next != block->start)
			why = "a block that can't follow the one before";
		else if (path && more + path->instructions > UINT32_MAX - count)
			why = "more blocks than an event may have";
		if (why)
			break;
		if (path)
			more += path->instructions - 1;
		before = path ? &table->blocks[path->target] : block;
		check->next = 0;
		good->blocks = i + 1 + more;
		good->has_paths |= path != NULL;
	}
	check->before = before;
	return why;
}

/* Whether what is left is of the block before, and the event stands at its first instruction. */
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
