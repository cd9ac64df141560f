/* SPDX-License-Identifier: MIT */
/*
 * soft_gap THREADS: looks at the clock all the time, beside so many threads that wait, until
 * SIGTERM; then prints the longest time between two looks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t is_over;

static void on_end(int signal)
{
	(void)signal;
	is_over = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *waits(void *unused)
{
	(void)unused;
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char *argv[])
{
	struct sigaction action = { .sa_handler = on_end };
	int threads = argc > 1 ? atoi(argv[1]) : 0;
	uint64_t last_ns, longest_ns = 0;
	pthread_t thread;

	sigaction(SIGTERM, &action, NULL);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, waits, NULL))
			return 1;
	last_ns = now_ns();
	while (!is_over) {
		uint64_t ns = now_ns();

		if (ns - last_ns > longest_ns)
			longest_ns = ns - last_ns;
		last_ns = ns;
	}
	printf("raw gap_ms %.3f\n", (double)longest_ns / 1e6);
	return 0;
}
