/* SPDX-License-Identifier: MIT */
/*
 * Jumps and calls by way of rcx, with a timer's signals all along: one that comes between the load
 * before a jump and the jump finds the load done. And a clock that is given up.
 */
#include "seen.h"

#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/time.h>

enum { SIGNALS = 3000 };

static volatile sig_atomic_t came;
static sigjmp_buf back;

static void alarmed(int number)
{
	(void)number;
	came++;
}

static void refused(int number, siginfo_t *info, void *data)
{
	(void)data;
	printf("%d code %d\n", number, info->si_code);
	siglongjmp(back, 1);
}

/* The bytes after a jump's target are no chain of pointers: code that loads twice goes astray. */
static void chase(void)
{
	uint64_t last[2] = { 0 }, first[2] = { 0, (uint64_t)last };

	__asm__ volatile(
		"lea 1f(%%rip), %%rcx\n mov %%rcx, 8(%0)\n mov $1000, %%edx\n"
		"2: mov %1, %%rcx\n mov 8(%%rcx), %%rcx\n mov 8(%%rcx), %%rcx\n jmp *%%rcx\n"
		"ud2\n ud2\n ud2\n ud2\n ud2\n ud2\n ud2\n ud2\n"
		"1: dec %%edx\n jnz 2b\n"
		:
		: "r"(last), "r"(first)
		: "rcx", "rdx", "memory", "cc");
}

int main(void)
{
	struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	struct sigaction action = { .sa_sigaction = refused, .sa_flags = SA_SIGINFO };

	signal(SIGALRM, alarmed);
	setitimer(ITIMER_REAL, &often, NULL);
	while (came < SIGNALS)
		chase();
	setitimer(ITIMER_REAL, &never, NULL);
	puts("arrived each time");

	sigaction(SIGSEGV, &action, NULL);
	for (volatile int i = 0; i < 3; i++) {
		if (sigsetjmp(back, 1))
			continue;
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
		__asm__ volatile("rdtsc" : : : "eax", "edx");
		puts("a clock");
	}
	return 0;
}
