/* SPDX-License-Identifier: MIT */
/*
 * A trace summed up in one pass over its events, fields jumped over.
 *
 * A span is measured from a begin to the next end of the same name in the same stream. Spans of one
 * name nest; those of different names may cross. A
 * gap in a stream (events lost, packets missing, damage) leaves the spans that are open across it
 * unmeasured, since their ends may be in the gap.
 *
 * A span's own time, "self", is that in which it is the innermost of its stream. A thread in a
 * signal handler has another stream, so what the handler does is the span's own time too.
 */
#ifndef READ_PASS_SUMMARY_H
#define READ_PASS_SUMMARY_H

#include "trace/reader.h"

#include <stdint.h>

/*
 * Times by their logarithm: exact below 32, else 32 buckets to each power of two, so a quantile is
 * off by 1 in 32 at most. In ticks.
 */
#define HISTOGRAM_STEP_BITS 5
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_STEP_BITS + 1) << HISTOGRAM_STEP_BITS)

struct histogram {
	uint64_t count, min, max, sum;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void summary_time_add(struct histogram *histogram, uint64_t value);

/* The value that `part` (0 to 1) of the values are not above. 0 without values. */
uint64_t summary_quantile(const struct histogram *histogram, double part);

/* The values from `low` to below `high`, by buckets that begin there. */
uint64_t summary_times_between(const struct histogram *histogram, uint64_t low, uint64_t high);

/* The value in the middle of a bucket. */
uint64_t summary_bucket_middle(uint32_t bucket);

/*
 * The recording, from the first packet to the last, in slices of equal length: how far values vary
 * by themselves (read/compare/comparison.h).
 */
#define SUMMARY_SLICES 64

struct summary_slice {
	uint64_t count;	    /* events in it, or spans that end in it */
	double ticks, logs; /* sums of the spans' lengths and of their logarithms */
};

/* Where a stream's slices are, in its ticks. */
struct summary_slicing {
	uint64_t from, length;
};

static inline uint32_t summary_slice_of(const struct summary_slicing *slicing, uint64_t ticks)
{
	uint64_t slice = ticks > slicing->from ? (ticks - slicing->from) / slicing->length : 0;

	return slice < SUMMARY_SLICES ? (uint32_t)slice : SUMMARY_SLICES - 1;
}

/* A marker, in whichever processes. */
struct summary_event {
	const char *name;
	char kind;
	char is_kernel; /* of the kernel's process */
	uint64_t count;
	/*
	 * Over the whole recording. Of a stream whose first events a flight recorder has
	 * overwritten, over the time that the others cover.
	 */
	double per_second;
	uint64_t threads;
	uint64_t processes;
	struct summary_slice *slices; /* NULL: not asked for */
};

/*
 * What a span's threads used between begin and end, by one of its counts (abi/cost.h). What is
 * nested is in it.
 */
#define SUMMARY_COSTS_MAX 8
struct summary_cost {
	const char *name; /* as in specs; the field's own, where abi/cost.h lacks it */
	const char *unit; /* "ns" or "" */
	int kind;	  /* enum cost_kind; -1: of a later version */
	uint64_t spans;	  /* that both ends have a value of */
	uint64_t sum, max;
	uint64_t unavailable; /* one of the ends has none, or it ran back */
	uint64_t partial; /* counted in part: others had a counter in between (COST_UNCOUNTED) */
};

/* A span, in whichever processes with the same clock. */
struct summary_span {
	char *name;	 /* without ":begin" */
	uint32_t number; /* in the order of their coming */
	uint64_t ticks_hz;
	struct histogram *times; /* never NULL */
	uint64_t nested_ticks;	 /* of their sum, in spans that began in one; the others are self */
	uint64_t unfinished;	 /* begun, and no end seen */
	uint64_t unbegun;	 /* ended, and no begin seen */
	uint32_t cost_count;
	struct summary_cost costs[SUMMARY_COSTS_MAX];
	struct summary_slice *slices; /* NULL: not asked for */
};

/* Ticks of a span's clock in nanoseconds. A damaged trace may have more than fit. */
static inline uint64_t summary_span_ns(const struct summary_span *span, uint64_t ticks)
{
	double ns = (double)ticks * 1e9 / (double)span->ticks_hz + 0.5;

	return ns < 0x1p64 ? (uint64_t)ns : UINT64_MAX;
}

/*
 * Sums of a trace's kernel events: what counts (count:NAME) came to, and how often the kernel
 * stopped an event for a while (kernel:throttled).
 */
#define KERNEL_SUMS_MAX 1024 /* rows of each; what a damaged trace has beyond them is left out */

#define KERNEL_COUNT_VALUES 3

struct kernel_count {
	char name[128]; /* without "count:"; of a group, of one of its events */
	uint32_t pid;	/* 0: of several processes, or of CPUs */
	int is_time;	/* in nanoseconds */
	uint64_t count, enabled_ns, running_ns;
	uint64_t last[KERNEL_COUNT_VALUES], before[KERNEL_COUNT_VALUES]; /* these three */
};

struct kernel_throttle {
	char event[64];
	uint64_t times;
};

/* Zeroed: empty. */
struct kernel_sums {
	struct kernel_count *counts;
	size_t count, room, next;
	struct kernel_throttle *throttles;
	size_t throttle_count, throttle_room;
};

/* Counters took turns, and this one did not count all the time. */
int summary_count_is_scaled(const struct kernel_count *count);

/* As if it had counted all the time; below 0: it never did. */
double summary_count_scaled(const struct kernel_count *count);

struct summary {
	struct summary_event *events; /* the most frequent first */
	uint32_t event_count;
	struct summary_span *spans; /* by name */
	uint32_t span_count;
	uint64_t total;		   /* events */
	uint64_t begin_ns, end_ns; /* of all packets; both 0 without packets */
	int is_cyclic;		   /* what was discarded came before what is there */
	uint64_t discarded, missing_packets;
	uint64_t threads, streams_lossy;
	struct kernel_sums kernel;
};

/*
 * Read all. Returns 0 or -ENOMEM; damage is put down in the reader, which must outlive the summary.
 * Freed with summary_free().
 */
int summary_make(struct summary **summary, struct trace_reader *reader);

/* The same; each measured span is added to *calls (read/spans/span_calls.h), whose wish is set. */
struct span_calls;
int summary_make_calls(struct summary **summary, struct trace_reader *reader,
		       struct span_calls *calls);

/* The same, with slices of all events and spans. */
int summary_make_sliced(struct summary **summary, struct trace_reader *reader);
void summary_free(struct summary *summary); /* NULL is allowed */

/* How much of the name of a begin or an end is its span's. */
size_t summary_span_bytes(const struct trace_class *class);

#endif
