/* SPDX-License-Identifier: MIT */
/*
 * Two versions of a program: `compared ROUNDS SPIN EXTRA`. A span work:spin takes SPIN steps, one
 * work:steady always as many, and work:extra comes EXTRA times in a round. With --wait it first
 * waits until its input ends, and passes work:waiting each 500 ms.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/marker.h>

static void spin(long steps)
{
	for (volatile long i = 0; i < steps; i++)
		;
}

int main(int argc, char **argv)
{
	long rounds = atol(argv[1]), steps = atol(argv[2]), extra = atol(argv[3]);

	if (argc > 4 && !strcmp(argv[4], "--wait")) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

		puts("ready");
		fflush(stdout);
		while (!poll(&input, 1, 500))
			WAYMARK(work, waiting);
	}
	for (long i = 0; i < rounds; i++) {
		{
			WAYMARK_SCOPE(work, spin, i);
			spin(steps);
		}
		{
			WAYMARK_SCOPE(work, steady, i);
			spin(2000);
		}
		for (long j = 0; j < extra; j++)
			WAYMARK(work, extra, j);
	}
	return 0;
}
