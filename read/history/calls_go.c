/* SPDX-License-Identifier: MIT */
#include "read/history/calls_own.h"

#include <errno.h>

#define SEARCH_MIN 256u
#define NONE UINT32_MAX

/* ---- pending reports ---- */

void calls_leave(struct calls *calls, uint32_t keep, enum call_end end, enum call_end last_end)
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

int calls_go(struct calls *calls, uint64_t at, const struct function *region)
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

int calls_go_back(struct calls *calls, uint64_t at, const struct function *region)
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
