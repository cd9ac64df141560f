/* SPDX-License-Identifier: MIT */
#include "record/trail/branch.h"

#include "target/code/block.h"

#include <string.h>

uint32_t branch_offsets(const struct trail_entry *entry, const uint8_t *code, uint16_t *offsets)
{
	struct block_insn insn;
	uint32_t count = 0, at = 0;

	while (code && at < entry->bytes && count < entry->instructions &&
	       count < TRAIL_BLOCK_INSTRUCTIONS_MAX &&
	       !block_insn(&insn, entry->start + at, code + at, entry->bytes - at)) {
		offsets[count++] = (uint16_t)at;
		at += insn.bytes;
	}
	if (count == entry->instructions)
		return count;
	offsets[0] = 0;
	return 1;
}

/*
 * How many of the block's instructions ran, by what follows; the offset of the last of them in
 * *last.
 */
static uint32_t ran_of(const struct branch_item *item, const struct branch_item *after,
		       uint32_t *last)
{
	uint16_t offsets[TRAIL_BLOCK_INSTRUCTIONS_MAX];
	uint32_t left = after && after->between ? after->between->left : 0, ran;

	*last = item->entry->last;
	if (!left)
		return item->entry->instructions;
	ran = left < item->entry->instructions ? item->entry->instructions - left : 0;
	*last = 0;
	if (ran && branch_offsets(item->entry, item->code, offsets) == item->entry->instructions)
		*last = offsets[ran - 1];
	return ran;
}

/* How a block that ended so led to `to`. */
static uint32_t flags_of(const struct trail_entry *entry, uint64_t to)
{
	static const uint32_t flags[TRAIL_KINDS] = {
		[TRAIL_FALL] = WM_BRANCH_FALL,
		[TRAIL_JUMP] = WM_BRANCH_JUMP,
		[TRAIL_BRANCH] = WM_BRANCH_CONDITIONAL,
		[TRAIL_CALL] = WM_BRANCH_CALL,
		[TRAIL_JUMP_INDIRECT] = WM_BRANCH_JUMP | WM_BRANCH_INDIRECT,
		[TRAIL_CALL_INDIRECT] = WM_BRANCH_CALL | WM_BRANCH_INDIRECT,
		[TRAIL_RETURN] = WM_BRANCH_RETURN,
		[TRAIL_SYSCALL] = WM_BRANCH_SYSCALL,
		[TRAIL_FAR] = WM_BRANCH_FAR,
	};

	if (entry->kind == TRAIL_BRANCH && to != entry->target)
		return WM_BRANCH_NOT_TAKEN;
	return entry->kind < TRAIL_KINDS ? flags[entry->kind] : 0;
}

static void event_make(struct wm_branch *branch, const struct branch_item *before,
		       const struct trail_between *between)
{
	uint32_t last;

	branch->flags = WM_BRANCH_EVENT;
	branch->event = between->event;
	branch->to = between->at;
	branch->values[0] = between->values[0];
	branch->values[1] = between->values[1];
	if (between->event == TRAIL_SIGNAL) {
		branch->from = between->at;
		branch->to = between->values[1] ? between->values[1] : between->at;
	} else if (between->event == TRAIL_END) {
		branch->from = between->at;
		branch->to = 0;
	}
	if (!branch->from && before && before->entry &&
	    ran_of(before, &(struct branch_item){ .between = between }, &last))
		branch->from = before->entry->start + last;
}

void branch_make(struct wm_branch *branch, const struct branch_item *before,
		 const struct branch_item *item, const struct branch_item *after,
		 struct branch_thread of)
{
	struct wm_branch made = { .size = branch->size < sizeof(made) ? branch->size : sizeof(made),
				  .monotonic_ns = item->monotonic_ns,
				  .tid = of.tid,
				  .pid = of.pid };
	uint32_t last;

	if (item->between) {
		event_make(&made, before, item->between);
	} else {
		made.to = item->entry->start;
		made.instructions = ran_of(item, after, &last);
		made.last = item->entry->start + last;
		if (before && before->entry) {
			made.from = before->entry->start + before->entry->last;
			made.flags = flags_of(before->entry, made.to);
		}
	}
	memcpy(branch, &made, made.size);
}
