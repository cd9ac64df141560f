// SPDX-License-Identifier: MIT
// Passes markers, calls functions and writes variables in two threads, and in children.
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

volatile long alpha, beta;

__attribute__((noinline)) static void one(long i)
{
	alpha = i;
	usleep(500);
}

__attribute__((noinline)) static void two(long i)
{
	beta = i;
	usleep(500);
}

static void turn(long i)
{
	WAYMARK(changed, first, i);
	WAYMARK(changed, second, i);
	one(i);
	two(i);
}

static void *turns(void *unused)
{
	for (long i = 0;; i++)
		turn(i);
	return unused;
}

int main(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, turns, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
	for (long i = 0;; i++) {
		pid_t child = i % 20 ? 0 : fork();

		turn(i);
		if (!(i % 20) && !child) {
			WAYMARK(changed, child, i);
			_exit(0);
		}
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}
