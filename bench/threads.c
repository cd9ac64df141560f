/* SPDX-License-Identifier: MIT */
/*
 * store.threads_1000_resident_kib: what a thread that wrote three events costs in memory, the
 * store's share and the agent's: the difference in resident memory of a program of a thousand such
 * threads, run with its markers recorded and run without the agent, by the number of threads.
 *
 *	threads            measure: starts itself, with the agent and without
 *	threads COUNT      the program
 */
#include <pthread.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/traced.h"
#include <waymark/error.h>
#include <waymark/marker.h>

#define THREADS 1000

static pthread_barrier_t written, done_with;

static void *thread_main(void *data)
{
	long number = (long)data;

	for (int i = 0; i < 3; i++)
		WAYMARK(bench, quiet, i, number);
	pthread_barrier_wait(&written);
	pthread_barrier_wait(&done_with);
	return NULL;
}

/* One field of our smaps_rollup, in KiB. */
static long resident_kib(const char *field)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[256];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)))
			kib = strtol(line + strlen(field), NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

static int program(unsigned int count)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	pthread_barrier_init(&written, NULL, count + 1);
	pthread_barrier_init(&done_with, NULL, count + 1);
	for (unsigned int i = 0; i < count; i++)
		if (pthread_create(&threads[i], &attr, thread_main, (void *)(long)i))
			return 1;
	pthread_barrier_wait(&written);
	printf("raw rss %ld\n", resident_kib("Rss:"));
	fflush(stdout);
	pthread_barrier_wait(&done_with);
	for (unsigned int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "threads: %s: %s (%d)\n", what, wm_error_text(err), err);
	return 1;
}

/* Start the program, with its markers recorded or alone; its resident KiB, or negative. */
static long run(char **argv, int with_agent)
{
	struct control_done done;
	struct traced traced;
	uint64_t recorded, discarded;
	long kib = -1;
	int output[2], keep = fcntl(1, F_DUPFD_CLOEXEC, 3), err = 0;
	pid_t pid;
	FILE *lines;

	if (pipe2(output, O_CLOEXEC))
		return -1;
	dup2(output[1], 1);
	close(output[1]);
	if (with_agent) {
		err = traced_launch(&traced, argv, 64 << 20, STORE_DISCARD);
		if (!err)
			err = traced_rule(&traced, CONTROL_ARM, "bench:*", 0, &done);
		if (!err)
			err = traced_request(&traced, CONTROL_GO, NULL);
		pid = traced.pid;
	} else {
		pid = fork();
		if (!pid) {
			execv(argv[0], argv);
			_exit(127);
		}
	}
	dup2(keep, 1);
	close(keep);
	if (err)
		return -fail("launch", err);
	lines = fdopen(output[0], "r");
	if (fscanf(lines, "raw rss %ld", &kib) != 1)
		kib = -1;
	fclose(lines);
	waitpid(pid, NULL, 0);
	if (with_agent) {
		traced_count(&traced, &recorded, &discarded);
		if (recorded + discarded != 3 * THREADS || discarded)
			kib = -fail("events are missing", 0);
		traced_release(&traced);
	}
	return kib;
}

int main(int argc, char **argv)
{
	char *again[] = { argv[0], "1000", NULL };
	unsigned int runs = measure_runs(7);
	static double each[MEASURE_RUNS_MAX];

	if (argc == 2)
		return program((unsigned int)strtoul(argv[1], NULL, 10));
	for (unsigned int i = 0; i < runs; i++) {
		long with = run(again, 1), without = run(again, 0);

		if (with < 0 || without < 0)
			return 1;
		each[i] = (double)(with - without) / THREADS;
	}
	measure_print("store.threads_1000_resident_kib", measure_median(each, runs), "KiB");
	return 0;
}
