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
	struct report_trails trails;
	struct report_watches watches;
	struct report_threads threads;
	struct report_samples samples;
};

void report_text(const struct report *report);
/* Returns 0 or -errno; the text's errors are stdio's. */
int report_json(const struct report *report);

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

/* A time with its unit, in eight columns at most. */
const char *report_time(double ns, char text[24]);

/* Ticks of a span's clock in nanoseconds. */
double report_ns(const struct summary_span *span, uint64_t ticks);

#endif
