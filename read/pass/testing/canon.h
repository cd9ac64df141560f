/* SPDX-License-Identifier: MIT */
/*
 * Our reader's events as lines that can be compared with babeltrace.h's:
 *
 *	NS NAME FIELD=VALUE ...
 *
 * with a string's and a run's state, and a run's length, as fields of their own before them; bytes
 * in hex, and addresses, each with a comma behind.
 */
#ifndef READ_PASS_TESTING_CANON_H
#define READ_PASS_TESTING_CANON_H

#include "trace/reader.h"

#include <stdint.h>

struct canon {
	char **lines;
	uint32_t count, room;
	uint64_t lost, missing_packets;
	uint64_t damages;
	int disorder; /* an event came before one that is earlier */
};

/* Open, read all, close. What trace_reader_open() or merge_next() returned. */
int canon_read(struct canon *canon, const char *dir);
void canon_release(struct canon *canon);

void canon_sort(char **lines, uint32_t count);

#endif
