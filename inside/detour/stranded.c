/* SPDX-License-Identifier: MIT */
#include "inside/detour/stranded.h"

#include "inside/store/thread_writer.h"

#include <stddef.h>

int stranded_begin(struct stranded *stranded, int32_t tid, uintptr_t pc, uintptr_t sp,
		   uintptr_t stack_end)
{
	stranded->writer = NULL;
	stranded->sp = sp;
	stranded->area_start = 0;
	stranded->place_count = stranded->stack_count = 0;
	for (uint32_t i = 0; i < stranded->count; i++) {
		uintptr_t start = stranded->of[i].area_start, end = stranded->of[i].area_end;

		if (stranded->of[i].tid != tid || stranded->of[i].writer->tid != tid)
			continue;
		stranded->writer = stranded->of[i].writer;
		if (sp >= start && sp < stack_end && stack_end <= end)
			stranded->area_start = start;
	}
	stranded_place(stranded, pc, sp);
	return stranded->writer != NULL;
}

void stranded_place(struct stranded *stranded, uintptr_t pc, uintptr_t sp)
{
	if (!stranded || !stranded->writer)
		return;
	if (stranded->place_count == STRANDED_PLACES_MAX) {
		stranded->writer = NULL; /* more than can be kept: all its hits continue */
		return;
	}
	stranded->places[stranded->place_count].pc = pc;
	stranded->places[stranded->place_count++].sp = sp;
}

void stranded_stack(struct stranded *stranded, uintptr_t from, uintptr_t to)
{
	if (!stranded || !stranded->writer || stranded->stack_count == STRANDED_STACKS_MAX)
		return;
	stranded->stacks[stranded->stack_count].from = from;
	stranded->stacks[stranded->stack_count++].to = to;
}

static int has_both(const struct writer_stack *stack, uintptr_t a, uintptr_t b)
{
	return a - stack->low < stack->bytes && b - stack->low < stack->bytes;
}

/*
 * Whether all places are known from which a hit at `frame` could continue. Where the thread has
 * returned past it, what was below is no longer stack, unless there are two stacks, of coroutines
 * that a signal's handler switches between. The thread's own stack is one: libc's mapping for it
 * ends in the thread's block, and begins at a page without access.
 */
static int is_in_sight(const struct stranded *stranded, uintptr_t frame)
{
	const struct writer *writer = stranded->writer;

	for (uint32_t i = 0; i < stranded->stack_count; i++) {
		if (frame >= stranded->stacks[i].from && frame < stranded->stacks[i].to)
			return 1;
	}
	return stranded->sp >= frame && ((stranded->area_start && frame >= stranded->area_start) ||
					 has_both(&writer->stack, stranded->sp, frame) ||
					 has_both(&writer->elsewhere, stranded->sp, frame));
}

/* A probe's handler, which a hit calls, is code of the program's. */
static int goes_on(const struct stranded *stranded, int depth)
{
	uintptr_t frame = stranded->writer->inside[depth];
	int runs_handler = stranded->writer->running_fn[depth] != NULL;

	if (!is_in_sight(stranded, frame))
		return 1;
	for (uint32_t i = 0; i < stranded->place_count; i++) {
		uintptr_t pc = stranded->places[i].pc;

		if (stranded->places[i].sp <= frame &&
		    (runs_handler || (pc >= stranded->code_start && pc < stranded->code_end)))
			return 1;
	}
	return 0;
}

void stranded_end(struct stranded *stranded)
{
	if (!stranded || !stranded->writer)
		return;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		uintptr_t *inside = &stranded->writer->inside[depth];

		if (!*inside || goes_on(stranded, depth))
			continue;
		__atomic_store_n(inside, 0, __ATOMIC_RELEASE);
		stranded->forgotten++;
	}
}
