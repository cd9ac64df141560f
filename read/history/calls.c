/* SPDX-License-Identifier: MIT */
#include "read/history/calls.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

/* The innermost frame, where there is one. */
static inline struct call_frame *calls_top(struct calls *calls)
{
	return &calls->frames[calls->depth - 1];
}

#define SEARCH_MIN 256u
#define NONE UINT32_MAX

/* ---- pending reports ---- */

/* Have all frames but the outermost `keep` go, for `end`, and the last of them for `last_end`. */
static void calls_leave(struct calls *calls, uint32_t keep, enum call_end end,
			enum call_end last_end)
{
	calls->keep = keep;
	calls->end = end;
	calls->last_end = last_end;
}

/* A frame at `at`, in code of `region`. */
static int enter(struct calls *calls, enum call_how how, uint64_t at, const struct function *region)
{
	const struct function *function = region;

	/* the start of one that was found without a name is unknown */
	if (how != CALL_FOUND)
		function = functions_entered(calls->functions, region, at);
	if (!function)
		return -ENOMEM;
	calls->enters = 1;
	calls->entering = (struct call_frame){ .function = function,
					       .region = region,
					       .table = calls->item.table,
					       .address = at,
					       .index = calls->item.index,
					       .ticks = calls->item.ticks,
					       .earliest_ticks = calls->earliest_ticks,
					       .how = (uint8_t)how,
					       .sets_jump = !!(function->flags &
							       FUNCTION_SETS_JUMP) };
	calls->sets_jumps |= calls->entering.sets_jump;
	return 0;
}

/* Another frame in place of the innermost; its caller is that of the old one. */
static int replace(struct calls *calls, enum call_how how, uint64_t at,
		   const struct function *region)
{
	const struct call_frame *top = calls_top(calls);
	int err;

	if (calls->beyond)
		return 0;
	err = enter(calls, how, at, region);
	if (err)
		return err;
	calls_leave(calls, calls->depth - 1, how == CALL_FOUND ? CALL_UNWOUND : CALL_REPLACED,
		    how == CALL_FOUND ? CALL_UNWOUND : CALL_REPLACED);
	calls->entering.back = top->back;
	calls->entering.signal = top->signal;
	calls->entering.sets_jump |= top->sets_jump;
	if (how == CALL_JUMPED && calls->before)
		calls->entering.from = calls->before->start + calls->before->last;
	if (how == CALL_JUMPED && (top->function->flags & FUNCTION_IS_STUB)) {
		calls->entering.how = top->how;
		calls->entering.from = top->from;
	}
	return 0;
}

/* ---- frames further out ---- */

static uint64_t search_begins(const struct calls *calls)
{
	return SEARCH_MIN + calls->credit;
}

static void search_failed(struct calls *calls, uint64_t looked)
{
	calls->credit -= looked < calls->credit ? looked : calls->credit;
}

/* The innermost frame that waits for `at`, or NONE. */
static uint32_t find_back(struct calls *calls, uint64_t at)
{
	uint64_t left = search_begins(calls);

	/* 0 means an unknown return address */
	for (uint32_t i = at ? calls->depth : 0; i-- && left; left--)
		if (calls->frames[i].back == at)
			return i;
	search_failed(calls, search_begins(calls) - left);
	return NONE;
}

/*
 * The innermost frame below `depth` that can continue at `at`: one that called setjmp() there, else
 * one of that code. NONE: not found.
 */
static uint32_t find_region(struct calls *calls, uint32_t depth, uint64_t at,
			    const struct function *region)
{
	uint64_t left = search_begins(calls);
	uint32_t found = NONE;

	for (uint32_t i = depth; i-- && left; left--) {
		const struct call_frame *frame = &calls->frames[i];

		if (!function_holds(frame->region, region))
			continue;
		if (frame->resume == at)
			return i;
		if (found == NONE && (region->name || !calls->sets_jumps))
			found = i;
		if (found != NONE && !calls->sets_jumps)
			return found;
	}
	search_failed(calls, search_begins(calls) - left);
	return found;
}

/* Leave the frames above the one that continues at `at`, if it exists. */
static int unwind(struct calls *calls, uint64_t at, const struct function *region)
{
	uint32_t found = find_region(calls, calls->depth - 1, at, region);

	if (found == NONE)
		return 0;
	calls_leave(calls, found + 1, CALL_UNWOUND, CALL_UNWOUND);
	return 1;
}

/* ---- where instructions lead ---- */

static int is_start(const struct function *region, uint64_t at)
{
	if (region->flags & (FUNCTION_IS_STUB | FUNCTION_IS_PART))
		return !(region->flags & FUNCTION_IS_PART);
	return region->name && region->start == at;
}

static int go_call(struct calls *calls, uint64_t at, const struct function *region)
{
	const struct trail_block *before = calls->before;
	struct call_frame *top = calls_top(calls);
	uint64_t back = before->start + before->bytes;
	int err;

	if (at == back) /* only asks where it is */
		return 0;
	if (region->name && region == top->region && at != region->start) {
		top->locals++;
		return 0;
	}
	err = enter(calls, CALL_CALLED, at, region);
	calls->entering.from = before->start + before->last;
	calls->entering.back = back;
	return err;
}

/* A return that no frame waits for. */
static int go_astray(struct calls *calls, uint64_t at, const struct function *region)
{
	const struct call_frame *top = calls_top(calls);

	int is_within = function_holds(top->region, region) && top->back;

	if (!is_start(region, at) && !is_within && unwind(calls, at, region))
		return 0;
	if (top->signal || is_within) /* the former: to what makes rt_sigreturn */
		return 0;
	if (replace(calls, is_start(region, at) ? CALL_JUMPED : CALL_FOUND, at, region))
		return -ENOMEM;
	if (!top->back)
		calls->end = calls->last_end = CALL_RETURNED;
	return 0;
}

static int go_return(struct calls *calls, uint64_t at, const struct function *region)
{
	struct call_frame *top = calls_top(calls);
	uint32_t found;

	if (calls->beyond) {
		calls->beyond--;
		return 0;
	}
	if (top->back != at && top->locals && region == top->region) {
		top->locals--;
		return 0;
	}
	found = at && top->back == at ? calls->depth - 1 : find_back(calls, at);
	if (found == NONE)
		return go_astray(calls, at, region);
	if (found < calls->unsure) /* so they were right */
		calls->unsure = 0;
	calls_leave(calls, found, CALL_UNWOUND, CALL_RETURNED);
	return 0;
}

static int go_jump(struct calls *calls, uint64_t at, const struct function *region)
{
	if (function_holds(calls_top(calls)->region, region))
		return 0;
	if (calls->before->kind != TRAIL_JUMP_INDIRECT && calls->before->kind != TRAIL_FAR)
		return replace(calls, CALL_JUMPED, at, region);
	if (is_start(region, at))
		return replace(calls, CALL_JUMPED, at, region);
	if ((region->name || calls->sets_jumps) && unwind(calls, at, region)) {
		calls->beyond = 0;
		return 0;
	}
	return replace(calls, region->name ? CALL_FOUND : CALL_JUMPED, at, region);
}

/* It is unknown how the thread came there. */
static int go_anywhere(struct calls *calls, uint64_t at, const struct function *region)
{
	enum call_end inner = calls->is_away ? CALL_UNWOUND : CALL_LOST;
	uint32_t found;
	int err;

	if (calls->is_away && is_start(region, at)) /* again, too */
		return enter(calls, CALL_CALLED, at, region);
	if (function_holds(calls_top(calls)->region, region))
		return 0;
	found = find_back(calls, at);
	if (found != NONE) {
		calls_leave(calls, found, inner, calls->is_away ? CALL_RETURNED : CALL_LOST);
		return 0;
	}
	found = find_region(calls, calls->depth - 1, at, region);
	if (found != NONE) {
		calls_leave(calls, found + 1, inner, inner);
		return 0;
	}
	err = enter(calls, CALL_FOUND, at, region);
	if (!calls->is_away && (!calls->is_gap || !is_start(region, at)))
		calls_leave(calls, 0, CALL_LOST, CALL_LOST);
	return err;
}

static int go_handler(struct calls *calls, uint64_t at, const struct function *region)
{
	int err = enter(calls, CALL_SIGNALLED, at, region);

	calls->entering.from = calls->entering.back = calls->interrupted;
	calls->entering.signal = calls->signal;
	return err;
}

/* The thread continues at `at`, in code of `region`: report the change. 0 or -ENOMEM. */
static int calls_go(struct calls *calls, uint64_t at, const struct function *region)
{
	if (calls->state == CALLS_HANDLER)
		return go_handler(calls, at, region);
	if (!calls->depth)
		return enter(calls,
			     calls->is_away && is_start(region, at) ? CALL_CALLED : CALL_FOUND, at,
			     region);
	if (calls->state == CALLS_HERE && at == calls->next)
		return 0;
	if (calls->state != CALLS_AFTER || !trail_block_leads(calls->before, at))
		return go_anywhere(calls, at, region);
	switch (calls->before->kind) {
	case TRAIL_CALL:
	case TRAIL_CALL_INDIRECT:
		return go_call(calls, at, region);
	case TRAIL_RETURN:
		return go_return(calls, at, region);
	case TRAIL_SYSCALL: /* what the kernel does for it is called */
		return at >= TRAIL_KERNEL ? go_call(calls, at, region) : go_jump(calls, at, region);
	case TRAIL_FAR: /* sysret, iret: to behind the call, or to where it was interrupted */
		return calls->before->start >= TRAIL_KERNEL ? go_return(calls, at, region)
							    : go_jump(calls, at, region);
	default:
		return go_jump(calls, at, region);
	}
}

/*
 * The same by rt_sigreturn: back to what a handler's frame interrupted, or wherever the handler
 * wrote. There is a frame.
 */
static int calls_go_back(struct calls *calls, uint64_t at, const struct function *region)
{
	uint32_t handler = NONE, found;

	for (uint32_t i = calls->depth; i-- && calls->depth - i <= search_begins(calls);)
		if (calls->frames[i].signal && (handler == NONE || calls->frames[i].back == at)) {
			handler = i;
			if (calls->frames[i].back == at)
				break;
		}
	if (handler == NONE || !handler)
		return go_anywhere(calls, at, region);
	calls_leave(calls, handler, CALL_UNWOUND, CALL_RETURNED);
	if (calls->frames[handler].back == at ||
	    function_holds(calls->frames[handler - 1].region, region))
		return 0;
	found = find_region(calls, handler - 1, at, region);
	if (found != NONE) {
		calls->keep = found + 1;
		calls->last_end = CALL_UNWOUND;
		return 0;
	}
	calls->keep = handler - 1;
	calls->last_end = CALL_UNWOUND;
	return enter(calls, CALL_FOUND, at, region);
}
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
