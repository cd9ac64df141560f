/* SPDX-License-Identifier: MIT */
/*
 * Where the jump of a detour may lead (abi/detour.h), by the bytes of its instruction and those
 * behind it. Inside, the agent finds memory there; outside, a list predicts what it will find.
 *
 * The idea is that of instruction punning (Chamith et al., PLDI 2017), with free prefixes before
 * the jump as E9Patch has them (Duck et al., PLDI 2020). Waymark adds: the opcode may be behind a
 * prefix of the instruction itself, so that its first byte never changes.
 */
#ifndef BASE_PUN_H
#define BASE_PUN_H

#include "abi/detour.h"

#include <stdint.h>

/*
 * Nothing is mapped where the heap or a stack may grow, so that no call of the program's fails for
 * us.
 */
#define PUN_LOWEST (UINT64_C(1) << 20)	   /* a null pointer's neighbourhood stays empty */
#define PUN_HIGHEST (UINT64_C(1) << 47)	   /* of what programs have */
#define PUN_STACK_ROOM (UINT64_C(1) << 30) /* below the main stack, and above the heap */
#define PUN_DATA_ROOM                                                                              \
	(UINT64_C(64)                                                                              \
	 << 20) /* below private anonymous memory that can be written: a stack, perhaps */

#define PUN_LANDINGS_MAX (1u << DETOUR_KEPT_MAX)
#define PUN_WHOLE 4u /* free bytes: the jump may lead to the trampoline itself */

/* One way to write the jump. It leads to low + x, 0 <= x < 256 to the power of free_bytes. */
struct pun_window {
	uint8_t form;	    /* enum detour_form */
	uint8_t opcode_at;  /* offset in the instruction of the jump's opcode */
	uint8_t free_bytes; /* of the distance, the low ones that may be chosen */
	/* of landings: with breakpoints of others in what stays, it leads to low + x + deltas[i] */
	uint8_t count;
	int64_t low;
	int64_t deltas[PUN_LANDINGS_MAX]; /* the first is 0 */
};

/* The written bytes of the jump. */
struct pun_bytes {
	uint8_t at, count; /* from the instruction's byte `at` on */
	uint8_t bytes[DETOUR_INSN_MAX];
};

/*
 * The next way to write the jump in a form, counted by *number, which begins as 0. Returns 1, or 0:
 * there is no other. Any thread.
 */
int pun_next(const struct control_detour *record, enum detour_form form, unsigned int *number,
	     struct pun_window *window);

/* The bytes of the jump that leads to `to`, which the window must allow. */
void pun_write(const struct control_detour *record, const struct pun_window *window, uint64_t to,
	       struct pun_bytes *bytes);

#endif
