/* SPDX-License-Identifier: MIT */
/* Functions of the vdso. */
#include "program.h"

#include <sched.h>
#include <sys/time.h>
#include <time.h>

ATTACHED;
EXPECT("clock_ reported day asked left");

int main(void)
{
	struct timespec time;
	struct timeval day_time;

	begin();
	PASS(clock_);
	clock_gettime(CLOCK_MONOTONIC, &time);
	PASS(reported);
	clock_gettime(CLOCK_REALTIME_COARSE, &time);
	PASS(day);
	gettimeofday(&day_time, NULL);
	PASS(asked);
	sched_getcpu();
	PASS(left);
	leave(0);
}
