/* SPDX-License-Identifier: MIT */
/* makecontext, swapcontext and setcontext of libc. */
#include "program.h"

#include <ucontext.h>

ATTACHED;
EXPECT("swapping other_begins swapped swapping other_goes_on swapped left");

static ucontext_t mine, others;
static char stack[65536];

static ONCE void other_begins(void)
{
	swapcontext(&others, &mine);
	PASS(other_goes_on);
}

int main(void)
{
	begin();
	getcontext(&others);
	others.uc_stack.ss_sp = stack;
	others.uc_stack.ss_size = sizeof(stack);
	others.uc_link = &mine;
	makecontext(&others, other_begins, 0);
#pragma GCC unroll 1
	for (volatile int i = 0; i < 2; i++) {
		PASS(swapping);
		swapcontext(&mine, &others);
		PASS(swapped);
	}
	PASS(left);
	leave(0);
}
