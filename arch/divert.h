/* SPDX-License-Identifier: MIT */
/*
 * Diverting an empty function, such as the one that the loader calls for debuggers: its return
 * instruction and the padding behind it become a jump. The jump's displacement is in the padding,
 * which is never executed, so that one byte, the first, makes and unmakes the jump.
 */
#ifndef ARCH_DIVERT_H
#define ARCH_DIVERT_H

#include <stdint.h>

#define DIVERT_BYTES 5	     /* of the jump */
#define DIVERT_LOOK_BYTES 32 /* how much code divert_find() wants to see */
#define DIVERT_FAR_BYTES 16  /* of a jump to anywhere */

/*
 * The offset of the jump in the code of an empty function, or -1 if the function is something else
 * or has no padding behind it.
 */
int divert_find(const uint8_t code[DIVERT_LOOK_BYTES]);

/* The jump from `from` to `to`. 0, or -ERANGE if it is too far. */
int divert_jump(uintptr_t from, uintptr_t to, uint8_t jump[DIVERT_BYTES]);

/* A jump to anywhere, for a page near the function. */
void divert_far_jump(uintptr_t to, uint8_t jump[DIVERT_FAR_BYTES]);

/*
 * What the function is diverted to: calls hook_handler with every general register kept (vector
 * registers are not: the function is called as any other), then returns to the function's caller.
 */
void divert_entry_code(void);
extern void (*hook_handler)(void);

#endif
