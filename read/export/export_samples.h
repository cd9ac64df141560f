/* SPDX-License-Identifier: MIT */
/* Samples in forms that other tools read, as export.h has for trails. */
#ifndef READ_EXPORT_EXPORT_SAMPLES_H
#define READ_EXPORT_EXPORT_SAMPLES_H

#include "base/out.h"
#include "read/history/samples.h"

struct export_samples {
	struct out *out;
	const char *name;	 /* the trace's */
	struct samples *samples; /* opened, not read; of one event */
	int is_counted;		 /* each sample weighs 1, and not its period */
};

/*
 * Each returns 0 or a negative error; what can't be written is out->error's. The out is the
 * caller's to flush.
 */

/*
 * Stacks, one a line with what they weigh: PROCESS;THREAD;FUNCTION;... WEIGHT. The kernel's
 * functions end in "_[k]", by which makers of flame graphs know them.
 */
int export_samples_folded(struct export_samples *export);

/* The JSON of speedscope.app: a profile for each thread, whose samples are in order of time. */
int export_samples_speedscope(struct export_samples *export);

#endif
