/* SPDX-License-Identifier: MIT */
#include "inside/watch/spare.h"

#include "arch/trap_frame.h"

#define STACK_BYTES 32768u
#define STACKS (SPARE_BYTES / STACK_BYTES)
#define ABOVE_BYTES 256u /* readers copy a payload by words, past its end */

static uintptr_t stacks; /* the first; 0: before the first watch */
static uint32_t in_use;	 /* a bit each */

int spare_is_there(void)
{
	return stacks != 0;
}

void spare_provide(void *start)
{
	__atomic_store_n(&stacks, (uintptr_t)start, __ATOMIC_RELEASE);
}

int spare_is_wanted(const ucontext_t *context)
{
	const stack_t *alternate = &context->uc_stack;

	return alternate->ss_size && !(alternate->ss_flags & SS_DISABLE) &&
	       trap_stack(context) - (uintptr_t)alternate->ss_sp < alternate->ss_size;
}

uintptr_t spare_take(void)
{
	for (unsigned int i = 0; stacks && i < STACKS; i++) {
		uint32_t bit = 1u << i;

		/* pairs with spare_give()'s release */
		if (!(__atomic_load_n(&in_use, __ATOMIC_RELAXED) & bit) &&
		    !(__atomic_fetch_or(&in_use, bit, __ATOMIC_ACQUIRE) & bit))
			return stacks + (i + 1) * STACK_BYTES - ABOVE_BYTES;
	}
	return 0;
}

void spare_give(uintptr_t end)
{
	__atomic_fetch_and(&in_use, ~(1u << (end - stacks) / STACK_BYTES), __ATOMIC_RELEASE);
}

int spare_has(uintptr_t address)
{
	return stacks && address - stacks < SPARE_BYTES;
}

void spare_forked(void)
{
	in_use = 0;
}
