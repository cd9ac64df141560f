/* SPDX-License-Identifier: MIT */
/* A thread that is not the first one is killed by a read. */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
static int *volatile nowhere;
static inline __attribute__((always_inline)) int reads(const volatile int *from)
{
	int sum = from[0]; /* LINE reads */
	sum ^= from[1];
	return sum;
}
__attribute__((noinline)) static int crashes(void)
{
	return reads(nowhere); /* LINE crashes */
}
static void *waits(void *unused)
{
	pause();
	return unused;
}
static void *runs(void *unused)
{
	printf("thread %ld\n", syscall(SYS_gettid));
	fflush(stdout);
	crashes(); /* LINE runs */
	return unused;
}
int main(void)
{
	pthread_t threads[2];
	pthread_create(&threads[0], NULL, waits, NULL);
	pthread_create(&threads[1], NULL, runs, NULL);
	return pthread_join(threads[1], NULL);
}
