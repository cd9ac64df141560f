/* SPDX-License-Identifier: MIT */
/*
 * passes THREADS: so many threads, one after the other, that pass a marker once; then 100 more.
 * They come slowly, since the recorder frees what ended threads used every 90 ms.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/marker.h>

#define LAST 100

static void *early(void *data)
{
	int number = (int)(intptr_t)data;

	WAYMARK(pass, early, number);
	return NULL;
}

static void *last(void *data)
{
	int number = (int)(intptr_t)data;

	WAYMARK(pass, last, number);
	return NULL;
}

static void thread(void *(*begin)(void *), int number, useconds_t pause_us)
{
	pthread_t made;

	if (pthread_create(&made, NULL, begin, (void *)(intptr_t)number))
		exit(2);
	pthread_join(made, NULL);
	usleep(pause_us);
}

int main(int count, char **values)
{
	int threads = count > 1 ? atoi(values[1]) : 0;

	for (int i = 0; i < threads; i++)
		thread(early, i, 3000);
	for (int i = 0; i < LAST; i++)
		thread(last, i, 20000);
	return 0;
}
