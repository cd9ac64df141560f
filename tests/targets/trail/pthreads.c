/* SPDX-License-Identifier: MIT */
/*
 * Threads of libc, which block all signals when they are made, with a handler of SIGTRAP that has
 * to outlast that; a barrier; signals sent to one.
 */
#include "program.h"

#include <pthread.h>
#include <signal.h>

ATTACHED;
EXPECT("made*2 sent joined trapping trapped left");
EXPECT_THREADS("began (caught)? met ended");

#define THREADS 2

static pthread_barrier_t barrier;
static volatile int traps, signals;

static ONCE void trapped(int signal)
{
	(void)signal;
	traps++;
}

static ONCE void caught(int signal)
{
	(void)signal;
	signals++;
}

static ONCE void *began(void *unused)
{
	pthread_barrier_wait(&barrier);
	PASS(met);
	__asm__ volatile("nop");
	PASS(ended);
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	signal(SIGTRAP, trapped);
	signal(SIGUSR1, caught);
	begin();
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
#pragma GCC unroll 1
	for (volatile int i = 0; i < THREADS; i++) {
		pthread_create(&threads[i], NULL, began, NULL);
		PASS(made);
	}
	PASS(sent);
	pthread_kill(threads[0], SIGUSR1);
	pthread_barrier_wait(&barrier);
#pragma GCC unroll 1
	for (volatile int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	PASS(joined);
	__asm__ volatile("nop");
	PASS(trapping);
	__asm__ volatile("int3");
	PASS(left);
	leave(traps != 1 || signals != 1);
}
