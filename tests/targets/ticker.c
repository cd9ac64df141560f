/* SPDX-License-Identifier: MIT */
/*
 * Emits a known number of events: ticker EVENTS [THREADS [ROUNDS [STATUS]]]. Each round starts the
 * threads, and each thread emits ticker:tick EVENTS times; a pause of 1 ms separates rounds. One
 * ticker:run:begin and :end around all. It ends with STATUS.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/marker.h>

#define THREADS_MAX 64

static long events;

static void *tick(void *data)
{
	for (long i = 0; i < events; i++)
		WAYMARK(ticker, tick, i, WM_FIELD(who, "ticker"));
	return data;
}

int main(int argc, char **argv)
{
	long threads = argc > 2 ? atol(argv[2]) : 1, rounds = argc > 3 ? atol(argv[3]) : 1;
	pthread_t started[THREADS_MAX];

	events = argc > 1 ? atol(argv[1]) : 1;
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	WAYMARK_BEGIN(ticker, run, events);
	for (long round = 0; round < rounds; round++) {
		if (round)
			usleep(1000);
		for (long i = 0; i < threads; i++)
			pthread_create(&started[i], NULL, tick, NULL);
		for (long i = 0; i < threads; i++)
			pthread_join(started[i], NULL);
	}
	WAYMARK_END(ticker, run);
	return argc > 4 ? atoi(argv[4]) : 0;
}
