/* SPDX-License-Identifier: MIT */
/*
 * Which instruction may be replaced by a jump to have an event at a place; or why none may.
 */
#ifndef TARGET_CODE_SPAN_H
#define TARGET_CODE_SPAN_H

#include "abi/detour.h"
#include "target/code/move.h"
#include "target/code/sweep.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * How far a function's entry can still be recorded: behind instructions that change nothing an
 * event reads. Such a one changes registers of the function's own alone, saves registers on the
 * stack, makes room there, stores in that room. It can't fail but for want of stack.
 */
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

#define SPAN_DETAIL_BYTES 96

struct span {
	uint64_t point;		  /* before which instruction the event happens */
	uint64_t address;	  /* of the instruction that the jump replaces */
	unsigned int bytes;	  /* of it, and of filler behind it that nothing ever runs */
	unsigned int kept;	  /* bytes behind it that may end the jump's distance */
	uint8_t starts;		  /* bit i: an instruction begins at the kept byte i */
	unsigned int stack_bytes; /* from the stack pointer there up to where it is at the point */
	struct move_insn insn;	  /* the one that is replaced */
	int refusal;		  /* -WM_E_*, why no choice was found; 0 */
	char detail[SPAN_DETAIL_BYTES]; /* of the refusal: what, and where; or "" */
};

/*
 * Find the choice with this number, from 0 on, for an event at `point`. `entry`: what the event
 * needs at a function's entry; NULL: the point is no entry. Returns 0; the refusal, if there is not
 * even the first; -ENOENT: there are no more, and never more than DETOUR_CHOICES_MAX.
 */
int span_find(const struct sweep *sweep, uint64_t point, const struct prologue *entry,
	      unsigned int number, struct span *span);

#endif
