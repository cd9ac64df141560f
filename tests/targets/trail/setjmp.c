/* SPDX-License-Identifier: MIT */
/*
 * setjmp, sigsetjmp and longjmp of libc, out of recursion and out of a handler; a program that is
 * walked from its first instruction on.
 */
#include "program.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

EXPECT("set deep*4 back set_again in_handler out_ left");

static jmp_buf buffer;
static sigjmp_buf out;

static ONCE void deep(int level)
{
	if (!level)
		longjmp(buffer, level + 1);
	if (level > 0)
		deep(level - 1);
	__asm__ volatile("");
}

static ONCE void in_handler(int signal)
{
	(void)signal;
	siglongjmp(out, 2);
}

int main(void)
{
	PASS(set);
	if (!setjmp(buffer))
		deep(3);
	PASS(back);
	signal(SIGSEGV, in_handler);
	PASS(set_again);
	if (!sigsetjmp(out, 1))
		raise(SIGSEGV);
	PASS(out_);
	__asm__ volatile("nop");
	PASS(left);
	_exit(0);
}
