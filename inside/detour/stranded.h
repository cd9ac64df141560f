/* SPDX-License-Identifier: MIT */
/*
 * Hits that are never finished: a signal's handler interrupted one and left by a jump
 * (siglongjmp(3)). The writer's inside[] is then wrong until the thread's next hit corrects it
 * (thread_writer.h). If no further hit comes, since all is disarmed, this file corrects it, with
 * the thread stopped.
 *
 * A thread has more than one place: the present one, and one for each signal frame on its stacks,
 * where it will continue. A hit is unfinished only if one of these is below it on the stack, in
 * code that hits run. If that is uncertain, the hit counts as unfinished.
 */
#ifndef INSIDE_DETOUR_STRANDED_H
#define INSIDE_DETOUR_STRANDED_H

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
		uintptr_t area_start, area_end; /* the mapping of its outermost hit */
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
 * Begin with a thread that is stopped at pc; its own stack ends at stack_end, 0 if it isn't on it.
 * Returns whether it has hits; else nothing more is needed of it.
 */
int stranded_begin(struct stranded *stranded, int32_t tid, uintptr_t pc, uintptr_t sp,
		   uintptr_t stack_end);

/* It has a signal's frame that continues there. `stranded` may be NULL; likewise below. */
void stranded_place(struct stranded *stranded, uintptr_t pc, uintptr_t sp);

/* All of this stack was searched for such frames. */
void stranded_stack(struct stranded *stranded, uintptr_t from, uintptr_t to);

/* Forget those of its hits that won't be finished. */
void stranded_end(struct stranded *stranded);

#endif
