/* SPDX-License-Identifier: MIT */
/*
 * How far a function's entry can still be recorded: behind instructions that change nothing an
 * event reads. Such a one changes registers of the function's own alone, saves registers on the
 * stack, makes room there, stores in that room. It can't fail but for want of stack.
 */
#ifndef TARGET_CODE_PROLOGUE_H
#define TARGET_CODE_PROLOGUE_H

#include "target/code/move.h"

#include <stdbool.h>
#include <stdint.h>

/* Integer registers of the psABI's first six arguments, bits by DWARF's numbers. */
#define PROLOGUE_ARGUMENTS (1u << 5 | 1u << 4 | 1u << 1 | 1u << 2 | 1u << 8 | 1u << 9)
#define PROLOGUE_STACK_MAX 4096

/* At the entry the first two are what the event needs, the others 0. */
struct prologue {
	uint32_t kept;	       /* registers that must not change, bits by DWARF's numbers */
	unsigned int room_max; /* of stack_bytes, up to PROLOGUE_STACK_MAX */

	unsigned int stack_bytes; /* from the stack pointer up to where it was at the entry */
	bool has_frame;
	unsigned int frame_bytes; /* likewise from %rbp */
};

/* Whether it may come before the event; then all that it does is in *prologue. */
bool prologue_pass(struct prologue *prologue, const struct move_insn *insn);

#endif
