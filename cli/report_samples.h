/* SPDX-License-Identifier: MIT */
/*
 * waymark report: samples of the kernel summed up by function, line, caller or thread, a table for
 * each event.
 */
#ifndef CLI_REPORT_SAMPLES_H
#define CLI_REPORT_SAMPLES_H

#include "read/history/samples.h"
#include "read/rows/render.h"

#define SAMPLES_ROWS_DEFAULT 20

enum samples_by { SAMPLES_BY_FUNCTION, SAMPLES_BY_LINE, SAMPLES_BY_THREAD, SAMPLES_BY_CALLER };

struct report_samples_options {
	enum samples_by by;
	const char *callee; /* whose callers are wanted: its name, or a glob */
	uint64_t last;	    /* rows of each table; UINT64_MAX: all */
	struct samples_options samples;
};

struct samples_row {
	const struct function *function; /* NULL: of a thread or line, or there is no caller */
	struct image_line line;
	const struct samples_thread *thread;
	uint64_t count;	      /* samples in it, or that it called */
	uint64_t self, total; /* weights: in itself; with what it called */
};

struct samples_table {
	struct samples_row *rows; /* the heaviest first */
	size_t count, room;
	uint64_t weight, samples; /* of all; of callers, of the callee */
};

struct report_samples {
	struct samples samples;
	struct samples_table *tables; /* by event; NULL: the trace has no samples */
	const struct report_samples_options *options;
};

/* Begin to observe a pass over the trace, if it has samples. 0 or an error. Release in any case. */
int report_samples(struct report_samples *report, struct images *images,
		   const struct report_samples_options *options);

/* The pass is over. 0 or -ENOMEM. */
int report_samples_finish(struct report_samples *report);
void report_samples_release(struct report_samples *report);

/* A table of the events; and one of what they hit, in text for each event. */
void report_samples_print(const struct report_samples *report, struct rows *rows);

#endif
