/* SPDX-License-Identifier: MIT */
/*
 * For programs that print what they see of signals: what they print natively is what they must
 * print under the engine.
 */
#ifndef TESTS_TARGETS_ENGINE_SEEN_H
#define TESTS_TARGETS_ENGINE_SEEN_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* The handler for a number, with flags and one more blocked meanwhile. */
static inline void seen_ask(int number, int flags, void (*handler)(int, siginfo_t *, void *),
			    int also)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	if (also)
		sigaddset(&action.sa_mask, also);
	if (sigaction(number, &action, NULL))
		printf("sigaction %d: %d\n", number, errno);
}

static inline sigset_t seen_set(int a, int b, int c)
{
	sigset_t set;

	sigemptyset(&set);
	if (a)
		sigaddset(&set, a);
	if (b)
		sigaddset(&set, b);
	if (c)
		sigaddset(&set, c);
	return set;
}

/* What the thread has blocked, as the kernel's number. */
static inline uint64_t seen_mask(void)
{
	uint64_t mask = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
	return mask;
}

#endif
