/* SPDX-License-Identifier: MIT */
/*
 * For cli/trail_calls_test.c: calls of every kind, in few instructions and without a library. What
 * it does is written down there, as it must be shown. Exit status 7.
 */
#include "call.h"

#include <stdint.h>

#define SYS_rt_sigaction 13
#define SYS_getpid 39
#define SYS_kill 62
#define SYS_exit_group 231
#define SIGUSR1 10
#define SA_RESTORER 0x04000000

#define APART __attribute__((noinline, used)) static

struct action {
	void (*handler)(int number);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

void restorer(void);
static void main_calls(void);

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	and	$-16, %rsp\n"
	"	call	main_calls\n"
	"	ud2\n"
	".size _start, . - _start\n"
	".type restorer, @function\n"
	"restorer:\n"
	"	mov	$15, %eax\n"
	"	syscall\n"
	".size restorer, . - restorer\n");

static void *jump[5];
static volatile int sum;

APART void leaf(int number)
{
	sum += number;
}

APART void recursive(int depth)
{
	if (depth)
		recursive(depth - 1);
	sum++;
}

APART void tails(int number)
{
	sum--;
	leaf(number);
}

APART void through(void (*what)(int number))
{
	what(1);
	sum++;
}

APART void jumps(int depth)
{
	if (!depth)
		__builtin_longjmp(jump, 1);
	jumps(depth - 1);
	sum++;
}

APART void sets(void)
{
	if (!__builtin_setjmp(jump))
		jumps(1);
	leaf(2);
	sum++;
}

APART void handler(int number)
{
	leaf(number);
	sum++;
}

APART void signals(void)
{
	static const struct action action = { handler, SA_RESTORER, restorer, 0 };

	call(SYS_rt_sigaction, SIGUSR1, (long)&action, 0, 8);
	call(SYS_kill, call(SYS_getpid, 0, 0, 0, 0), SIGUSR1, 0, 0);
	leaf(3);
	sum++;
}

APART void main_calls(void)
{
	for (int i = 0; i < 10; i++)
		leaf(i);
	recursive(2);
	tails(5);
	through(leaf);
	sets();
	signals();
	call(SYS_exit_group, 7, 0, 0, 0);
}
