/* SPDX-License-Identifier: MIT */
/*
 * requests: two threads serve requests of three kinds, in spans that nest, one of them a function
 * that calls itself.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <waymark/marker.h>

#define REQUESTS 300

static const char *const kinds[] = { "order", "search", "login" };

int look_up(int key, int depth);

__attribute__((noinline)) int look_up(int key, int depth)
{
	volatile int sum = key;

	for (int i = 0; i < 200; i++)
		sum = sum * 31 + i;
	if (depth)
		sum += look_up(key + 1, depth - 1);
	return sum == 12345 ? 9 : key % 3; /* what the loop is for */
}

static void *serve(void *number)
{
	int found = 0;

	for (int i = 0; i < REQUESTS; i++) {
		const char *what = kinds[(i + (int)(long)number) % 3];

		WAYMARK_BEGIN(web, request, what, i);
		for (int part = 0; part < 3; part++) {
			WAYMARK_BEGIN(web, part, part);
			found += look_up(i, part % 2);
			WAYMARK_END(web, part);
		}
		if (i % 50 == 0) /* time is the subject: these are the slowest */
			nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
		found += look_up(i, 0);
		WAYMARK_END(web, request, found);
		if (found < 0) {
			WAYMARK_BEGIN(web, never);
			WAYMARK_END(web, never);
		}
	}
	return NULL;
}

int main(void)
{
	pthread_t other;

	pthread_create(&other, NULL, serve, (void *)1);
	serve((void *)0);
	pthread_join(other, NULL);
	return 0;
}
