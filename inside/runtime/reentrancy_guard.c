/* SPDX-License-Identifier: MIT */
#include "inside/runtime/reentrancy_guard.h"

#include "arch/halt.h"

#define STRETCH_BYTES 65536u /* of stack that the agent's own code takes, at the most */

__thread uintptr_t reentrancy_guard_at;

int reentrancy_guard_is_above(const struct reentrancy_guard *guard, uintptr_t sp)
{
	return (uintptr_t)guard - sp <= STRETCH_BYTES &&
	       *(const volatile uintptr_t *)&guard->mark ==
		       ((uintptr_t)guard ^ REENTRANCY_GUARD_MARK);
}

/* A handler runs below a signal's frame, or on another stack; the agent's own code does neither. */
int reentrancy_guard_is_agents_own(uintptr_t sp)
{
	uintptr_t begin = reentrancy_guard_at;

	if (begin == REENTRANCY_GUARD_FOR_GOOD)
		return 1;
	if (sp - begin > STRETCH_BYTES && begin - sp > STRETCH_BYTES)
		return 0;
	if (!reentrancy_guard_is_above((const struct reentrancy_guard *)begin, sp)) {
		reentrancy_guard_at = 0; /* it was left by a jump */
		return 0;
	}
	for (sp &= ~(uintptr_t)7; sp + 8 * (HALT_FRAME_WORDS_BEHIND + 1) <= begin; sp += 8) {
		if (halt_is_frame((const uint64_t *)sp, 0))
			return 0;
	}
	return 1;
}
