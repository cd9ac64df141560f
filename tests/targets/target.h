/* SPDX-License-Identifier: MIT */
/*
 * A target: a program that tests attach to and stop. It checks itself all the while, runs until its
 * standard input ends, and says by its exit status whether all went as it would have gone alone.
 * It writes one byte to standard output when it is under way.
 */
#ifndef TESTS_TARGETS_TARGET_H
#define TESTS_TARGETS_TARGET_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void target_ready(void)
{
	if (write(1, "r", 1) != 1)
		exit(3);
}

/* A target that has signals sent to it sets this: then EINTR is its own. */
static volatile int target_has_signals;

/* Has standard input ended? */
static inline int target_over(void)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	int ready = poll(&in, 1, 0);

	if (ready < 0 && errno == EINTR && target_has_signals)
		return 0;
	if (ready < 0) {
		fprintf(stderr, "poll for the end: %s\n", strerror(errno));
		exit(1);
	}
	return ready;
}

static inline uint64_t target_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void target_want(int right, const char *what)
{
	if (!right) {
		fprintf(stderr, "wrong: %s (errno %d)\n", what, errno);
		_exit(1);
	}
}

#endif
