/* SPDX-License-Identifier: MIT */
#include "inside/runtime/reentrancy_guard.h"

#include "arch/halt.h"

#define SHUT_BYTES 65536u /* of stack that the agent's own code takes, at the most */

__thread uintptr_t hit_guard_at;

int hit_guard_is_above(const struct hit_guard *shut, uintptr_t sp)
{
	return (uintptr_t)shut - sp <= SHUT_BYTES &&
	       *(const volatile uintptr_t *)&shut->mark == ((uintptr_t)shut ^ HIT_GUARD_MARK);
}

/* A handler runs below a signal's frame, or on another stack; the agent's own code does neither. */
int hit_is_agents_own(uintptr_t sp)
{
	uintptr_t begin = hit_guard_at;

	if (begin == HIT_GUARD_FOR_GOOD)
		return 1;
	if (sp - begin > SHUT_BYTES && begin - sp > SHUT_BYTES)
		return 0;
	if (!hit_guard_is_above((const struct hit_guard *)begin, sp)) {
		hit_guard_at = 0; /* it was left by a jump */
		return 0;
	}
	for (sp &= ~(uintptr_t)7; sp + 8 * (HALT_FRAME_WORDS_BEHIND + 1) <= begin; sp += 8) {
		if (halt_is_frame((const uint64_t *)sp, 0))
			return 0;
	}
	return 1;
}
