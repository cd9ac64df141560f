/* SPDX-License-Identifier: MIT */
/* A late library is probed once the tool has answered: after a wait for that, counts are exact. */
#ifndef TESTS_PROBES_ARMED_H
#define TESTS_PROBES_ARMED_H

#include <string.h>
#include <unistd.h>

/*
 * Wait until a function's first instruction, of at least four bytes, has a probe's jump in it. 0:
 * it never has.
 */
static inline int is_armed(const void *function)
{
	for (int i = 0; i < 30000; i++) {
		if (memchr(function, 0xe9, 4))
			return 1;
		usleep(1000);
	}
	return 0;
}

#endif
