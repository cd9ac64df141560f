/* SPDX-License-Identifier: MIT */
/*
 * Local variables: where one is in its function's frame, from the CFA, which at the function's
 * first instruction is the stack pointer + 8. So the place is known before the function has done
 * anything.
 *
 * Only a variable that stays at one place of the frame all its life has such a place. Refused, by
 * name, are variables that:
 * - are in registers for a time;
 * - are at an address in a register that the frame moves (aligned frames);
 * - are inlined and so have no frame;
 * - share their place with another variable.
 */
#ifndef TARGET_EXPRESSION_LOCAL_FRAME_H
#define TARGET_EXPRESSION_LOCAL_FRAME_H

#include "target/expression/scope.h"

#include <stdint.h>

#define FRAME_PLACES_MAX 16

struct frame_span {
	uint64_t start, end; /* as linked */
};

/* A function, and where in it the variable is there. */
struct frame_place {
	uint64_t entry;				  /* as linked */
	struct frame_span code[FRAME_PLACES_MAX]; /* the function's */
	struct frame_span valid
		/* of them: the block's that declares it, or those of its list */
		[FRAME_PLACES_MAX];
	unsigned int code_count, valid_count;
	int64_t offset; /* from the CFA */
	int is_inlined; /* refused since its function is, there */
};

/*
 * Where the variable or parameter that `scope` leads to is. 0, or why it has no such place:
 * -WM_E_WATCH_LOCAL, -WM_E_WATCH_REGISTER, -WM_E_WATCH_OPTIMISED, -WM_E_WATCH_SPLIT,
 * -WM_E_WATCH_CONSTANT, with *why in words.
 */
int frame_locate(const struct scope *scope, struct code_file *file, struct frame_place *frame,
		 const char **why);

#endif
