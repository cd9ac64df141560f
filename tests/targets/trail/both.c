/* SPDX-License-Identifier: MIT */
/* A marker and functions, in two threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

__attribute__((noinline)) int leaf(int n)
{
	return n * 3 + (n >> 2); /* LINE */
}

__attribute__((noinline)) int order(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static int turns;

static void *work(void *data)
{
	for (int i = 0; i < turns; i++) {
		int some[4] = { leaf(i), 3, i % 7, 1 };

		WAYMARK(both, turn, i);
		qsort(some, 4, sizeof(*some), order);
	}
	return data;
}

int main(int count, char **words)
{
	pthread_t thread;

	turns = atoi(words[1]);
	if (count > 2 && !fork())
		execlp("true", "true", NULL);
	pthread_create(&thread, NULL, work, NULL);
	work(NULL);
	pthread_join(thread, NULL);
	while (wait(NULL) > 0)
		;
	puts("done");
	return 7;
}
