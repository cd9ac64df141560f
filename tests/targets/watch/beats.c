/* SPDX-License-Identifier: MIT */
/* Stores on CPU 1 alone, until ./goes_on has gone. */
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>
volatile long beat;
int main(void)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(1, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	for (long i = 1; !access("goes_on", F_OK); i++) {
		beat = i;
		usleep(2000);
	}
	return 0;
}
