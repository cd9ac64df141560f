/* SPDX-License-Identifier: MIT */
/* What the watches of a trace came to, and where their hits come from, for its summary. */
#ifndef CLI_REPORT_WATCHES_H
#define CLI_REPORT_WATCHES_H

#include "cli/watch_writers.h"
#include "read/pass/pass.h"
#include "read/rows/render.h"
#include "record/watch/watches.h"

struct report_watch {
	struct watched_spec watched;
	int unproven; /* watch_counts_text() */
};

struct report_watches {
	struct pass_observer observer; /* of the hits */
	struct report_watch *all;      /* what each came to; none if the recorder was killed */
	size_t count;
	struct watch_wheres *wheres; /* the report's */
	struct writers *writers;     /* NULL where no watch can have been hit */
	uint64_t hits;
};

/* Begin to observe a pass over the trace, if it has hits. 0 or an error. Release in any case. */
int report_watches(struct report_watches *watches, const struct trace_reader *reader,
		   struct watch_wheres *wheres);
void report_watches_release(struct report_watches *watches);

void report_watches_print(const struct report_watches *watches, struct rows *rows);

#endif
