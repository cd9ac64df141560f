/* SPDX-License-Identifier: MIT */
/* What of a trace's trails is there and what is not, in numbers, for its summary. */
#ifndef CLI_REPORT_TRAILS_H
#define CLI_REPORT_TRAILS_H

#include "read/rows/render.h"
#include "trace/reader.h"

struct report_trails {
	uint64_t threads;      /* that have a trail, or had one */
	uint64_t blocks;       /* that ran, as far as they are there */
	uint64_t places, lost; /* where blocks are missing; how many, that are known of */
	uint64_t unrecorded;   /* places where code ran unrecorded */
	uint64_t cut;	       /* threads whose recording was cut off */
	uint64_t damaged;      /* threads whose trail is damaged, or gone */
};

/* All zero where it has none. Damage that is found is the reader's. 0 or -errno. */
int report_trails(struct report_trails *sum, struct trace_reader *reader);

void report_trails_print(const struct report_trails *sum, struct rows *rows);

#endif
