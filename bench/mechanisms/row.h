/* SPDX-License-Identifier: MIT */
/* The rows of bench_mechanisms, and who fills them in. */
#ifndef BENCH_MECHANISMS_ROW_H
#define BENCH_MECHANISMS_ROW_H

#include <stdint.h>

#include "bench/mechanisms/target.h"

#define ROW_WRONG "WRONG" /* begins the reason of a row whose events were not what they should be */
#define ROW_RUNS 9	  /* the median counts */

struct child;

/* What isn't known is NAN. */
struct row {
	const char *name;
	double dormant_ns, hit_ns, hot_bytes, arm_us;
	char skipped[256]; /* why there is no hit_ns; "" where there is */
};

/* What a call of each leaf takes without a tracer. */
struct base_line {
	double ns[TARGET_WAYS][TARGET_LAYOUTS];
	double delta_ns[TARGET_WAYS]; /* over TARGET_NONE */
	struct target_hello hello;
	uint64_t count; /* of calls in a run */
};

/* The middle of count values, which are sorted. */
double row_median(double *values, unsigned int count);

/* Say why a row has no figures, as printf(3). */
void row_skip(struct row *row, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Time all leaves without a tracer. 0 or a negative error. */
int base_line_measure(struct base_line *base, uint64_t count);

/* dormant_ns and hot_bytes of a way. */
void base_line_fill(const struct base_line *base, enum target_way way, struct row *row);

/*
 * hit_ns: the median of ROW_RUNS runs of `count` calls, by turns in the first `layouts` layouts,
 * over what the base line says of them. 0 or a negative error.
 */
int row_measure_hits(struct row *row, struct child *child, const struct base_line *base,
		     enum target_way way, unsigned int layouts, uint64_t count);

/*
 * One of Waymark's own, through a session of one spec: hit_ns, arm_us. Skips the row if that fails.
 */
void row_measure_spec(struct row *row, const struct base_line *base, enum target_way way,
		      const char *spec);

enum row_kernel { KERNEL_UPROBE, KERNEL_NOP5, KERNEL_RETURN };

/* The kernel's, by perf_event_open(2), which records two registers. */
void row_measure_kernel(struct row *row, const struct base_line *base, enum row_kernel kind);

/*
 * A peer: a command for sh, which prints any of `raw dormant N`, `raw hit N`, `raw bytes N` and
 * `raw arm N`. With status 77 its last line is the reason why it has no figures.
 */
void row_measure_peer(struct row *row, const char *command);

#endif
