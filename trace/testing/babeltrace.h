/* SPDX-License-Identifier: MIT */
/*
 * A trace as libbabeltrace2 reads it, for tests that compare it with our reader. If the library
 * isn't installed, babeltrace_absent.c replaces it.
 */
#ifndef TRACE_TESTING_BABELTRACE_H
#define TRACE_TESTING_BABELTRACE_H

#include <stdint.h>

struct babeltrace {
	char **lines; /* one an event: "NS NAME FIELD=VALUE ..." (see canon.h) */
	uint32_t count, room;
	uint32_t facts;			     /* events of waymark:*, which have no lines */
	uint64_t discarded, missing_packets; /* as it says */
	int failed;			     /* it stopped with an error */
};

/* Read all. 0, or -ENOSYS when the library is not there. */
int babeltrace_read(struct babeltrace *read, const char *dir);
void babeltrace_release(struct babeltrace *read);

#endif
