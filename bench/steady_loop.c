/* SPDX-License-Identifier: MIT */
/* steady_loop SECONDS: passes bench:tick 1,000,000 times a second, in steps of a millisecond. */
#include <stdlib.h>
#include <time.h>
#include <waymark/marker.h>

#define STEP_NS 1000000
#define STEP_EVENTS 1000

int main(int argc, char **argv)
{
	long steps = (argc > 1 ? atol(argv[1]) : 1) * 1000, number = 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	while (steps-- > 0) {
		for (int i = 0; i < STEP_EVENTS; i++, number++)
			WAYMARK(bench, tick, number);
		next.tv_nsec += STEP_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	return 0;
}
