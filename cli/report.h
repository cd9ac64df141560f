/* SPDX-License-Identifier: MIT */
/*
 * A trace's summary on stdout, for people and for programs.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/report_samples.h"
#include "cli/report_watches.h"
#include "read/pass/summary.h"
#include "read/pass/thread_names.h"
#include "read/states/switches.h"
#include "trace/process_numbers.h"

/* What of the trails is there and what is not. */
struct report_trails {
	uint64_t threads;      /* that have a trail, or had one */
	uint64_t blocks;       /* that ran, as far as they are there */
	uint64_t places, lost; /* where blocks are missing; how many, that are known of */
	uint64_t unrecorded;   /* places where code ran unrecorded */
	uint64_t cut;	       /* threads whose recording was cut off */
	uint64_t damaged;      /* threads whose trail is damaged, or gone */
};

/* What the threads did with their time: where switches were recorded. */
struct report_threads {
	const struct thread_record **all; /* those recorded, what ran longest first */
	size_t count;			  /* 0: no switches were recorded */
	struct switches switches;
	const struct trace_reader *reader;
	struct thread_names names;
	struct process_numbers numbers;
	struct watch_wheres *wheres; /* the report's */
};

/* All that a report prints. */
struct report {
	const char *dir;
	struct trace_reader *reader;
	struct summary *summary;
	struct images images;
	struct watch_wheres *wheres;
	struct report_trails trails;
	struct report_watches watches;
	struct report_threads threads;
	struct report_samples samples;
};

/* All zero where it has none. Damage that is found is the reader's. 0 or -errno. */
int report_trails(struct report_trails *sum, struct trace_reader *reader);

/*
 * Begin to observe a pass over the trace of which `summary` was made; without switches there is
 * nothing to observe. 0 or an error. Release also after an error.
 */
int report_threads(struct report_threads *threads, struct trace_reader *reader,
		   const struct summary *summary, struct watch_wheres *wheres);

/* The pass is over. 0 or -ENOMEM. */
int report_threads_finish(struct report_threads *threads);
void report_threads_release(struct report_threads *threads);

void report_print(const struct report *report, struct rows *rows);

#endif
