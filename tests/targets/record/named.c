/* SPDX-License-Identifier: MIT */
/*
 * Two threads beside the first have the agent's threads' names. named NOW: they end at once;
 * without: when its input ends.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

static pthread_barrier_t named, over;

static void *run(void *name)
{
	prctl(PR_SET_NAME, name);
	pthread_barrier_wait(&named);
	pthread_barrier_wait(&over);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	(void)argv;
	pthread_barrier_init(&named, NULL, 3);
	pthread_barrier_init(&over, NULL, 3);
	pthread_create(&threads[0], NULL, run, "waymark");
	pthread_create(&threads[1], NULL, run, "waymark-keeper");
	pthread_barrier_wait(&named);
	puts("ready");
	fflush(stdout);
	if (argc < 2)
		getchar();
	pthread_barrier_wait(&over);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return 0;
}
