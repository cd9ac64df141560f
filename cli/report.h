/* SPDX-License-Identifier: MIT */
/*
 * A trace's summary on stdout, for people and for programs.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/report_samples.h"
#include "cli/report_threads.h"
#include "cli/report_trails.h"
#include "cli/report_watches.h"
#include "read/pass/summary.h"

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

/* The tables of a report, for the manual. */

void report_print(const struct report *report, struct rows *rows);

/*
 * The rows of a span's histogram, in nanoseconds: bounds at 1, 2 and 5 of each power of ten where
 * that gives no more than REPORT_ROWS_FINE rows, else at the powers alone. Returns their number.
 */
#define REPORT_ROWS_FINE 12
#define REPORT_ROWS_MAX 24
struct report_row {
	uint64_t low_ns, high_ns, count;
};
int report_rows(const struct summary_span *span, struct report_row rows[REPORT_ROWS_MAX]);

/* Ticks of a span's clock in nanoseconds. */
double report_ns(const struct summary_span *span, uint64_t ticks);

#endif
