/* SPDX-License-Identifier: MIT */
#include "read/history/calls_own.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define CREDIT_MAX (1u << 20)

void calls_init(struct calls *calls, const struct trail_path *path, struct functions *functions,
		int has_items)
{
	*calls = (struct calls){ .functions = functions,
				 .cursor = { .path = path },
				 .until = { .path = path },
				 .has_items = has_items };
	trail_seek_end(&calls->until);
}

void calls_release(struct calls *calls)
{
	free(calls->frames);
	*calls = (struct calls){ 0 };
}

/* ---- items ---- */

/* Whether code of `region` at `at` is simply what the innermost frame runs next. */
static int is_straight(const struct calls *calls, uint64_t at, const struct function *region)
{
	return calls->state == CALLS_AFTER && calls_is_straight(calls->before) &&
	       region == calls->frames[calls->depth - 1].region &&
	       trail_block_leads(calls->before, at);
}

static int take_block(struct calls *calls)
{
	const struct trail_item *item = &calls->item;
	const struct function *region = functions_block(calls->functions, item->table, item->id);

	if (!region)
		return -ENOMEM;
	if (is_straight(calls, item->block->start, region))
		return 0;
	return calls_go(calls, item->block->start, region);
}

/* An event with the thread's place: it came there as the block before leads, or by rt_sigreturn. */
static int take_place(struct calls *calls, const struct trail_between *between)
{
	const struct function *region = functions_at(calls->functions, calls->item.table,
						     between->at);
	int is_back = between->event == TRAIL_SYSCALLED && between->values[0] == SYS_rt_sigreturn;
	int err;

	if (!region)
		return -ENOMEM;
	if (is_back && calls->depth)
		err = calls_go_back(calls, between->at, region);
	else
		err = calls_go(calls, between->at, region);
	calls->state = CALLS_HERE;
	calls->next = between->at;
	return err;
}

static void take_gap(struct calls *calls, const struct trail_between *between)
{
	/* it returned to what was not recorded */
	if (calls->state == CALLS_AFTER && calls->before->kind == TRAIL_RETURN && calls->depth)
		calls_leave(calls, calls->depth - 1, CALL_RETURNED, CALL_RETURNED);
	calls->state = CALLS_ANYWHERE;
	calls->is_gap = 1;
	calls->is_away = between->values[0] == TRAIL_GAP_ELSEWHERE;
}

static int take_event(struct calls *calls)
{
	const struct trail_between *between = calls->item.between;
	int err = 0;

	switch ((enum trail_event)between->event) {
	case TRAIL_LOST:
		calls->state = CALLS_ANYWHERE;
		calls->unsure = calls->depth;
		return 0;
	case TRAIL_GAP:
		if (trail_is_gap(between))
			take_gap(calls, between);
		return 0;
	case TRAIL_EXEC:
		calls_leave(calls, 0, CALL_EXECED, CALL_EXECED);
		calls->state = CALLS_BEGIN;
		return 0;
	case TRAIL_END:
		/* a fault at a function's first instruction: no block of that function ran */
		if (between->values[0] != TRAIL_KILLED)
			return 0;
		break;
	default:
		break;
	}
	/* what did not run to its end has led nowhere, and `at` is in it */
	if (between->left)
		calls->next = between->at;
	if (between->has_at)
		err = take_place(calls, between);
	if (between->event == TRAIL_SIGNAL && between->values[1]) {
		calls->state = CALLS_HANDLER;
		calls->signal = (uint32_t)between->values[0];
		calls->interrupted = between->at;
	}
	return err;
}

/* ---- telling ---- */

static void tell_leave(struct calls *calls, struct call_change *change)
{
	struct call_frame *frame = calls_top(calls);
	int is_last = --calls->depth == calls->keep;

	frame->total_blocks += frame->blocks;
	frame->total_instructions += frame->instructions;
	if (calls->depth) {
		struct call_frame *outer = calls_top(calls);

		outer->total_blocks += frame->total_blocks;
		outer->total_instructions += frame->total_instructions;
		if (frame->sets_jump && calls->last_end == CALL_RETURNED)
			outer->resume = frame->back;
	}
	if (calls->unsure > calls->depth)
		calls->unsure = calls->depth;
	*change = (struct call_change){ .kind = CALL_LEAVE,
					.end = is_last ? calls->last_end : calls->end,
					.depth = calls->depth,
					.frame = frame };
}

/* 1; 0 where there are too many; -ENOMEM. */
static int tell_enter(struct calls *calls, struct call_change *change)
{
	calls->enters = 0;
	if (calls->depth == CALLS_DEPTH_MAX) {
		calls->beyond++;
		calls->beyond_ever++;
		return 0;
	}
	if (array_grow(&calls->frames, &calls->room, (size_t)calls->depth + 1,
		       sizeof(*calls->frames)))
		return -ENOMEM;
	calls->frames[calls->depth] = calls->entering;
	*change = (struct call_change){ .kind = CALL_ENTER,
					.depth = calls->depth,
					.frame = &calls->frames[calls->depth] };
	calls->keep = ++calls->depth;
	return 1;
}

static void tell_block(struct calls *calls, struct call_change *change)
{
	const struct trail_item *item = &calls->item;
	struct call_frame *top = calls_top(calls);

	top->blocks++;
	top->instructions += item->ran;
	calls->blocks++;
	calls->instructions += item->ran;
	calls->credit += calls->credit < CREDIT_MAX;
	calls->before = item->block;
	calls->is_gap = calls->is_away = 0;
	calls->state = CALLS_AFTER;
	if (item->ran < item->block->instructions) {
		calls->state = CALLS_HERE;
		calls->next = 0;
	}
	*change = (struct call_change){ .kind = CALL_BLOCK,
					.depth = calls->depth - 1,
					.frame = top };
}

static void tell_event(struct calls *calls, struct call_change *change)
{
	calls->earliest_ticks = calls->item.ticks;
	*change = (struct call_change){ .kind = CALL_EVENT };
	if (calls->depth) {
		change->depth = calls->depth - 1;
		change->frame = calls_top(calls);
	}
}

static int is_at(const struct trail_cursor *cursor, const struct trail_cursor *end)
{
	return cursor->part > end->part || (cursor->part == end->part && cursor->id >= end->id);
}

/* Take the next item in. 0, also at the end; -ENOMEM. */
static int take_item(struct calls *calls)
{
	if (is_at(&calls->cursor, &calls->until) || !trail_next(&calls->cursor, &calls->item)) {
		calls->is_over = 1;
		calls_leave(calls, 0, CALL_OPEN, CALL_OPEN);
		return 0;
	}
	calls->has_item = 1;
	return calls->item.block ? take_block(calls) : take_event(calls);
}

int calls_next(struct calls *calls, struct call_change *change)
{
	int err = 0;

	for (;;) {
		if (calls->depth > calls->keep) {
			tell_leave(calls, change);
			break;
		}
		if (calls->enters) {
			err = tell_enter(calls, change);
			if (err < 0)
				return err;
			if (err)
				break;
		}
		if (calls->has_item) {
			calls->has_item = 0;
			if (calls->item.block)
				tell_block(calls, change);
			else
				tell_event(calls, change);
			if (calls->has_items)
				break;
			continue;
		}
		if (calls->is_over || (calls->stops && is_at(&calls->cursor, &calls->stop)))
			return 0;
		err = take_item(calls);
		if (err)
			return err;
	}
	change->item = calls->is_over ? NULL : &calls->item;
	return 1;
}

const struct trail_run *calls_path(struct calls *calls)
{
	const struct trail_cursor *cursor = &calls->cursor;
	const struct trail_run *run;

	if (calls->depth != calls->keep || calls->enters || calls->has_item || calls->stops ||
	    is_at(cursor, &calls->until) || !cursor->path->parts[cursor->part].has_paths)
		return NULL;
	run = trail_cursor_run(&calls->cursor);
	if (cursor->part == calls->until.part && run->first + run->count > calls->until.id)
		return NULL;
	return cursor->id == run->first && run->sure == run->count ? run : NULL;
}

int calls_pass(struct calls *calls, const struct function *region)
{
	const struct trail_run *run = &calls->cursor.run;
	const struct trail_block *blocks = run->part->table->blocks;

	if (!is_straight(calls, blocks[load_u32(run->ids)].start, region))
		return 0;
	calls->before = &blocks[load_u32(run->ids + 4 * (size_t)(run->count - 1))];
	calls->cursor.id += run->count;
	calls->credit += run->count;
	if (calls->credit > CREDIT_MAX)
		calls->credit = CREDIT_MAX;
	return 1;
}

int calls_range(struct calls *calls, const struct trail_range *range)
{
	int has_items = calls->has_items, more;
	struct call_change change;

	calls->until.part = range->end_part;
	calls->until.id = range->end_id;
	calls->stop = range->cursor;
	calls->stops = 1;
	calls->has_items = 0;
	do
		more = calls_next(calls, &change);
	while (more > 0);
	calls->stops = 0;
	calls->has_items = has_items;
	return more;
}
