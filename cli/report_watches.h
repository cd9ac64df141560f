/* SPDX-License-Identifier: MIT */
/* Where the hits of a trace's watches come from, for its summary. */
#ifndef CLI_REPORT_WATCHES_H
#define CLI_REPORT_WATCHES_H

#include "cli/watch_writers.h"

struct report_watches {
	struct trace_reader
		*reader; /* another than the summary's: what is damaged is not counted twice */
	struct watch_wheres *wheres; /* NULL where no watch was hit */
	struct writers *writers;     /* likewise */
};

/* Read the trace's hits again, by its open `reader`. 0 or an error. Release also after an error. */
int report_watches(struct report_watches *watches, const struct trace_reader *reader,
		   const char *dir);
void report_watches_release(struct report_watches *watches);

#endif
