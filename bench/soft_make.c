/* SPDX-License-Identifier: MIT */
/*
 * For soft.sh: soft_make fork|thread COUNT makes so many children, or threads, one after the other.
 * Each ends at once, and this program waits for it. It prints, for one of them, "raw clock US", and
 * "raw cpu US" of the program and its children.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int make_child(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(3);
	return child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
	       WEXITSTATUS(status) != 3;
}

static void *returns(void *given)
{
	return given;
}

static int make_thread(void)
{
	pthread_t thread;
	void *got = NULL;

	return pthread_create(&thread, NULL, returns, &thread) || pthread_join(thread, &got) ||
	       got != &thread;
}

static double cpu_us(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return 1e6 * (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	int is_fork = argc == 3 && !strcmp(argv[1], "fork");
	int count = argc == 3 ? atoi(argv[2]) : 0;
	double began_us = clock_us(), began_cpu_us = cpu_us(RUSAGE_SELF);

	for (int i = 0; i < count; i++)
		if (is_fork ? make_child() : make_thread())
			return 1;
	printf("raw clock %.1f\nraw cpu %.1f\n", (clock_us() - began_us) / count,
	       (cpu_us(RUSAGE_SELF) - began_cpu_us + cpu_us(RUSAGE_CHILDREN)) / count);
	return count <= 0;
}
