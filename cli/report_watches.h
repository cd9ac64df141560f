/* SPDX-License-Identifier: MIT */
/* What the watches of a trace came to, and where their hits come from, for its summary. */
#ifndef CLI_REPORT_WATCHES_H
#define CLI_REPORT_WATCHES_H

#include "cli/watch_writers.h"
#include "record/watch/watches.h"

struct report_watch {
	struct watched_spec watched;
	int unproven; /* watch_counts_text() */
};

struct report_watches {
	struct report_watch *all; /* what each came to; none if the recorder was killed */
	size_t count;
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
