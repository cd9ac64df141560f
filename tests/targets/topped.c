/* SPDX-License-Identifier: MIT */
/*
 * A program whose markers and threads are known, for waymark top: topped TICKS SPANS [waits]. A
 * thread "spinner" computes in spin(), a thread "sleeper" sleeps until the end. The first thread
 * emits topped:tick TICKS times and the span topped:work SPANS times, and prints how many. The span
 * topped:open is open from begin to end. With "waits" it ends when standard input does.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/marker.h>

static atomic_int over;
static pthread_barrier_t begin;
static int sleeps[2];

static __attribute__((noinline)) unsigned long spin(unsigned long seed)
{
	for (int i = 0; i < 1000000; i++)
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
	return seed;
}

static void *spinner(void *data)
{
	unsigned long seed = 1;

	pthread_barrier_wait(&begin);
	while (!over)
		seed = spin(seed);
	*(volatile unsigned long *)data = seed;
	return NULL;
}

static void *sleeper(void *data)
{
	char byte;

	pthread_barrier_wait(&begin);
	return read(sleeps[0], &byte, 1) ? data : NULL;
}

int main(int argc, char **argv)
{
	long ticks = argc > 2 ? atol(argv[1]) : 0, spans = argc > 2 ? atol(argv[2]) : 0;
	pthread_t spins, sleeping;
	unsigned long seed;
	char byte;

	if (argc <= 2 || pipe(sleeps) || pthread_barrier_init(&begin, NULL, 3) ||
	    pthread_create(&spins, NULL, spinner, &seed) ||
	    pthread_create(&sleeping, NULL, sleeper, NULL))
		return 2;
	pthread_setname_np(spins, "spinner");
	pthread_setname_np(sleeping, "sleeper");
	pthread_barrier_wait(&begin);
	WAYMARK_BEGIN(topped, open);
	for (long i = 0; i < ticks; i++) {
		WAYMARK(topped, tick, i);
		if (i % 1000 == 0)
			usleep(1000); /* so that it lasts for some intervals */
	}
	for (long i = 0; i < spans; i++) {
		WAYMARK_BEGIN(topped, work);
		WAYMARK_END(topped, work);
	}
	printf("ticks %ld spans %ld pid %d\n", ticks, spans, (int)getpid());
	fflush(stdout);
	while (argc > 3 && read(STDIN_FILENO, &byte, 1) > 0)
		;
	over = 1;
	pthread_join(spins, NULL);
	if (write(sleeps[1], "", 1) != 1)
		return 3;
	pthread_join(sleeping, NULL);
	WAYMARK_END(topped, open);
	return 0;
}
