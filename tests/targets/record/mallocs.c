/* SPDX-License-Identifier: MIT */
/*
 * A malloc of its own, which registers for fork at its first call, as jemalloc does. It prints how
 * many threads a forked child has when that malloc may be called again: one, as no other handler
 * may come before.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

void *__libc_malloc(size_t bytes);

static int is_registered, threads;

static void in_child(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;

	while (tasks && (entry = readdir(tasks)))
		threads += entry->d_name[0] != '.';
	if (tasks)
		closedir(tasks);
}

void *malloc(size_t bytes)
{
	if (!is_registered) {
		is_registered = 1;
		pthread_atfork(NULL, NULL, in_child);
	}
	return __libc_malloc(bytes);
}

int main(void)
{
	void *volatile first = malloc(1);
	pid_t child;
	int status;

	free(first);
	WAYMARK(mallocs, parent, 1);
	child = fork();
	if (!child) {
		WAYMARK(mallocs, child, threads);
		_exit(threads);
	}
	waitpid(child, &status, 0);
	printf("threads %d\n", WEXITSTATUS(status));
	return 0;
}
