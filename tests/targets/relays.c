/* SPDX-License-Identifier: MIT */
/*
 * Threads that come and go: relays SECONDS PER_SECOND [PROGRAM]. It prints "ready", and starts so
 * many threads a second. Each sleeps a moment and ends. The last one executes PROGRAM.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static void *run(void *unused)
{
	pause_ns(1000000);
	return unused;
}

static void *execute(void *program)
{
	execl(program, program, NULL);
	exit(4);
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 1, rate = argc > 2 ? atol(argv[2]) : 100;
	pthread_t thread;

	puts("ready");
	fflush(stdout);
	for (long i = 0; i < seconds * rate; i++) {
		if (pthread_create(&thread, NULL, run, NULL))
			return 3;
		pthread_detach(thread);
		pause_ns(1000000000 / rate);
	}
	if (argc > 3 && !pthread_create(&thread, NULL, execute, argv[3]))
		pause();
	return 0;
}
