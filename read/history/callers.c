/* SPDX-License-Identifier: MIT */
#include "read/history/callers.h"

#include <sys/syscall.h>

struct search {
	uint64_t returns;  /* that were met, without their calls yet */
	uint64_t handlers; /* that have returned, without their signals yet */
	uint64_t kernels;  /* ways out of the kernel that were met, without those into it yet */
	int is_kernel;	   /* what came next was there */
	struct caller *found;
	size_t count, most;
};

static void put(struct search *search, const struct trail_item *item, uint64_t at, int64_t signal)
{
	search->found[search->count++] = (struct caller){ at, signal, item->table };
}

/* The thread went into the kernel there: it is still in it, or has come back. */
static void into_kernel(struct search *search, const struct trail_item *item, uint64_t at)
{
	search->is_kernel = 0;
	if (search->kernels) {
		search->kernels--;
		return;
	}
	search->returns = 0;
	put(search, item, at, 0);
}

/* 0: unknown what was before it. */
static int over_event(struct search *search, const struct trail_item *item)
{
	const struct trail_between *event = item->between;

	if (event->event == TRAIL_LOST || trail_is_gap(event) || event->event == TRAIL_EXEC)
		return 0;
	if (event->event == TRAIL_SYSCALLED)
		search->handlers += event->values[0] == SYS_rt_sigreturn;
	if (event->event != TRAIL_SIGNAL || !event->values[1])
		return 1;
	if (!event->values[0]) {
		into_kernel(search, item, event->at);
		return 1;
	}
	if (search->handlers) {
		search->handlers--;
	} else {
		search->returns = 0; /* the handler is in its first function */
		put(search, item, event->at, (int64_t)event->values[0]);
	}
	return 1;
}

static void over_block(struct search *search, const struct trail_item *item)
{
	const struct trail_block *block = item->block;

	if (search->handlers || item->ran < block->instructions)
		return;
	if (block->kind == TRAIL_SYSCALL && search->is_kernel)
		into_kernel(search, item, block->start + block->last);
	search->is_kernel = block->start >= TRAIL_KERNEL;
	search->kernels += block->kind == TRAIL_FAR && search->is_kernel;
	if (block->kind == TRAIL_RETURN)
		search->returns++;
	if (block->kind != TRAIL_CALL && block->kind != TRAIL_CALL_INDIRECT)
		return;
	if (search->returns)
		search->returns--;
	else
		put(search, item, block->start + block->last, 0);
}

size_t callers_find(struct trail_cursor cursor, struct caller *callers, size_t most)
{
	struct search search = { .found = callers, .most = most };
	struct trail_item item;

	while (search.count < most && trail_previous(&cursor, &item)) {
		if (item.block)
			over_block(&search, &item);
		else if (!over_event(&search, &item))
			break;
	}
	return search.count;
}
