/* SPDX-License-Identifier: MIT */
/* What a trace's threads did with their time, for its summary: where switches were recorded. */
#ifndef CLI_REPORT_THREADS_H
#define CLI_REPORT_THREADS_H

#include "cli/json.h"
#include "cli/watch_where.h"
#include "read/pass/thread_names.h"
#include "read/states/switches.h"
#include "trace/process_numbers.h"

struct report_threads {
	const struct thread_record **all; /* those recorded, what ran longest first */
	size_t count;			  /* 0: no switches were recorded */
	struct switches switches;
	struct trace_reader *reader; /* another than the summary's, as in report_watches */
	struct thread_names names;
	struct process_numbers numbers;
	struct watch_wheres *wheres;
};

/*
 * Read the trace's events again. `reader` is its open one, of which `summary` was made. 0 or an
 * error. Release also after an error.
 */
int report_threads(struct report_threads *threads, const struct trace_reader *reader,
		   const struct summary *summary, const char *dir);
void report_threads_release(struct report_threads *threads);

/* A table of the first threads, on stdout. */
void report_threads_text(const struct report_threads *threads);

/* All of them, as a member `switched`. */
void report_threads_json(const struct report_threads *threads, struct json *json);

/* The time in the spans of a place in the summary's spans[]; NULL: no switches were recorded. */
const struct switch_span *report_threads_span(const struct report_threads *threads, uint32_t span);

/* Further columns of a span's row, of the rows' head, and members of its object. */
void report_span_head(const struct report_threads *threads);
void report_span_text(const struct switch_span *span);
void report_times_json(const uint64_t ns[THREAD_TIMES], struct json *json);

#endif
