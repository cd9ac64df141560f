/* SPDX-License-Identifier: MIT */
/*
 * The place of a hit and its callers, for events with bt=N. The walk begins in the agent's own
 * frames, whose call frame information finds the program's registers, so that a hit without bt=N
 * keeps none for it.
 *
 * Most frames need three registers alone: the program counter, the stack pointer, the frame
 * pointer. Their rules are kept in one word an address (abi below), so that a step is a look at one
 * cache line and two words of the stack. A frame with another rule has the whole walk begin again
 * with all registers (unwind.h).
 *
 * A hit on its thread's own stack reads that directly, from the hit up to the stack's end. Any
 * other memory is read by the kernel (careful.h).
 */
#ifndef INSIDE_UNWIND_CALLER_WALK_H
#define INSIDE_UNWIND_CALLER_WALK_H

#include "inside/marker/hit.h"

/*
 * Up to callers->wanted of them; `here` is in the agent's code, in a frame that the hit has called.
 * Any thread. Hit path.
 */
void caller_walk(const struct hit_registers *here, const struct hit_at *at,
		 struct hit_callers *callers);

#endif
