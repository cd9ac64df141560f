/* SPDX-License-Identifier: MIT */
/*
 * Hits that are never finished: a signal's handler interrupted one and left by a jump (siglongjmp(3)). What
 * the writer's inside[] says is then wrong until the thread's next hit finds out (writer.h). Where none
 * comes, since all is disarmed, it is found out here, with the thread stopped.
 *
 * A thread is at more than one place: where it is now, and where each signal's frame on its stacks will
 * have it go on. A hit goes on only if one of these lies below it on the stack, in code that hits run.
 * Where that can't be seen for certain, the hit goes on.
 */
#ifndef AGENT_DETOUR_STRANDED_H
#define AGENT_DETOUR_STRANDED_H

#include <stdint.h>

struct writer;

#define STRANDED_MAX 64u /* threads in one look; the others come to the next */
#define STRANDED_PLACES_MAX 32u
#define STRANDED_STACKS_MAX 8u

struct stranded {
	/* given */
	uintptr_t code_start, code_end; /* the agent's; all there is, where it isn't known */
	uint32_t count;
	struct {
		struct writer *writer;
		int32_t tid;
		uintptr_t area_start, area_end; /* the mapping that its outermost hit lies in */
	} of[STRANDED_MAX];
	/* of the thread that is looked at */
	struct writer *writer;
	uintptr_t sp, area_start; /* of its own stack, if that is where the hit and sp are; 0 */
	uint32_t place_count, stack_count;
	struct {
		uintptr_t pc, sp;
	} places[STRANDED_PLACES_MAX];
	struct {
		uintptr_t from, to; /* was read as a whole */
	} stacks[STRANDED_STACKS_MAX];
	/* out */
	uint32_t forgotten; /* hits */
};

/* ---- janitor ---- */

/*
 * A thread is looked at that stands at pc; its own stack ends at stack_end, 0 if it isn't there.
 * Whether it has hits; else nothing more is needed of it.
 */
int stranded_begin(struct stranded *stranded, int32_t tid, uintptr_t pc, uintptr_t sp,
		   uintptr_t stack_end);

/* It has a signal's frame that goes on there. `stranded` NULL: nobody wants to know; likewise below. */
void stranded_place(struct stranded *stranded, uintptr_t pc, uintptr_t sp);

/* All of this stack was searched for such frames. */
void stranded_stack(struct stranded *stranded, uintptr_t from, uintptr_t to);

/* Forget those of its hits that don't go on. */
void stranded_end(struct stranded *stranded);

#endif
