/* SPDX-License-Identifier: MIT */
/* What a trace's threads did with their time, for its summary: where switches were recorded. */
#ifndef CLI_REPORT_THREADS_H
#define CLI_REPORT_THREADS_H

#include "cli/watch_where.h"
#include "read/pass/thread_names.h"
#include "read/rows/render.h"
#include "read/states/switches.h"
#include "trace/process_numbers.h"

struct report_threads {
	const struct thread_record **all; /* those recorded, what ran longest first */
	size_t count;			  /* 0: no switches were recorded */
	struct switches switches;
	const struct trace_reader *reader;
	struct thread_names names;
	struct process_numbers numbers;
	struct watch_wheres *wheres; /* the report's */
};

/*
 * Begin to observe a pass over the trace of which `summary` was made; without switches there is
 * nothing to observe. 0 or an error. Release also after an error.
 */
int report_threads(struct report_threads *threads, struct trace_reader *reader,
		   const struct summary *summary, struct watch_wheres *wheres);

/* The pass is over. 0 or -ENOMEM. */
int report_threads_finish(struct report_threads *threads);
void report_threads_release(struct report_threads *threads);

/* What the threads did, why they waited, who woke them, where they left their CPU. */
void report_threads_print(const struct report_threads *threads, struct rows *rows);

/* The time in the spans of a place in the summary's spans[]; NULL: no switches were recorded. */
const struct switch_span *report_threads_span(const struct report_threads *threads, uint32_t span);

/* Columns of a row with times by state, and their values, of enum thread_time. */
#define REPORT_TIME_COLUMNS                                                                        \
	{ "running", ROW_U64, ROW_NS, 0, "on a CPU" },                                             \
		{ "runnable", ROW_U64, ROW_NS, 0, "ready to run, without a CPU" },                 \
		{ "asleep", ROW_U64, ROW_NS, 0, "it waited" },                                     \
		{ "waiting", ROW_U64, ROW_NS, ROW_QUIET,                                           \
		  "asleep, then perhaps runnable: not all wakes are recorded" },                   \
	{                                                                                          \
		"unknown", ROW_U64, ROW_NS, ROW_QUIET, "events of its CPU are missing"             \
	}

#define REPORT_TIME_VALUES(is_known, ns)                                                           \
	(is_known) ? row_u64((ns)[THREAD_TIME_RUNNING]) : row_null(),                              \
		(is_known) ? row_u64((ns)[THREAD_TIME_RUNNABLE]) : row_null(),                     \
		(is_known) ? row_u64((ns)[THREAD_TIME_ASLEEP]) : row_null(),                       \
		(is_known) ? row_u64((ns)[THREAD_TIME_WAITING]) : row_null(),                      \
		(is_known) ? row_u64((ns)[THREAD_TIME_UNKNOWN]) : row_null()

#endif
