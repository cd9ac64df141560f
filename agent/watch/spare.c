/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/watch/spare.h"

#include "arch/trap.h"

#define STACKS 16u
#define STACK_BYTES 32768u
#define ABOVE_BYTES 256u /* a payload is read in words that may reach over its end */

static uint8_t stacks[STACKS][STACK_BYTES] __attribute__((aligned(4096)));
static uint32_t in_use; /* a bit each */

int spare_is_wanted(const ucontext_t *context)
{
	const stack_t *alternate = &context->uc_stack;

	return alternate->ss_size && !(alternate->ss_flags & SS_DISABLE) &&
	       trap_stack(context) - (uintptr_t)alternate->ss_sp < alternate->ss_size;
}

uintptr_t spare_take(void)
{
	for (unsigned int i = 0; i < STACKS; i++) {
		uint32_t bit = 1u << i;

		/* pairs with spare_give()'s release */
		if (!(__atomic_load_n(&in_use, __ATOMIC_RELAXED) & bit) &&
		    !(__atomic_fetch_or(&in_use, bit, __ATOMIC_ACQUIRE) & bit))
			return (uintptr_t)stacks[i] + STACK_BYTES - ABOVE_BYTES;
	}
	return 0;
}

void spare_give(uintptr_t end)
{
	__atomic_fetch_and(&in_use, ~(1u << (end - (uintptr_t)stacks) / STACK_BYTES),
			   __ATOMIC_RELEASE);
}

int spare_has(uintptr_t address)
{
	return address - (uintptr_t)stacks < sizeof stacks;
}

void spare_forked(void)
{
	in_use = 0;
}
