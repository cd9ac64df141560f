/* SPDX-License-Identifier: MIT */
/*
 * The measured spans of a trace, each as its end is read: summed up by the values of fields, and by
 * the span that they are in; and the slowest ones. Memory is bounded: what there is no room for is
 * summed up as one.
 */
#ifndef READ_SPANS_SPAN_CALLS_H
#define READ_SPANS_SPAN_CALLS_H

#include "base/out.h"
#include "base/slots.h"
#include "base/texts.h"
#include "read/pass/summary.h"
#include "read/spans/span_pairs.h"
#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

#define SPAN_GROUPS_MAX 4096u  /* 15 KiB each */
#define SPAN_VALUES_MAX 65536u /* different texts of fields */
#define SPAN_NONE UINT32_MAX

/* Which of them are wanted, and how. Zeroed: none. */
struct span_wish {
	const char *name;  /* glob; NULL: all spans */
	uint32_t pid, tid; /* 0: all */
	uint64_t min_ns;   /* only spans that took so long */
	int has_groups;
	/* by their own fields, or "thread", "comm", "tid", "pid" */
	const char *by[SPAN_BY_MAX];
	unsigned int by_count;
	const char *edges; /* glob: spans whose callers and callees are wanted; NULL: none */
	uint64_t slowest;  /* so many */
};

/* Spans of one name and with the same values. */
struct span_group {
	uint32_t span;			 /* in the summary's spans[] */
	const char *values[SPAN_BY_MAX]; /* of `by`; NULL: it has no such field */
	struct histogram *times;
	uint64_t self_ticks;
};

/* The spans `callee` that began while `caller` was the innermost of their thread. */
struct span_edge {
	uint32_t caller, callee; /* in the summary's spans[]; caller SPAN_NONE: in none */
	uint64_t count, ticks, max_ticks, self_ticks;
};

struct span_slow {
	uint32_t span;
	uint64_t ns, self_ns;
	uint64_t begin_ticks;
	struct span_place begin, end;
};

struct span_calls {
	struct span_wish wish;
	const struct trace_reader *reader;
	const struct summary *summary;
	uint8_t *flags; /* of each span */
	struct texts values;
	struct out *out; /* for their text */
	struct span_group *groups;
	size_t group_count, group_room;
	struct span_edge *edges;
	size_t edge_count, edge_room;
	struct slots group_slots, edge_slots;
	struct span_slow *slow; /* a heap, the fastest first; then sorted, the slowest first */
	size_t slow_count, slow_room;
	uint64_t fitting; /* spans that took min_ns */
	int error;
};

/*
 * Before the streams are read; the summary's spans[] are complete. 0 or -ENOMEM. Release in any
 * case, after what it was opened with.
 */
int span_calls_open(struct span_calls *calls, const struct trace_reader *reader,
		    const struct summary *summary);
void span_calls_release(struct span_calls *calls);

/* What the event that is being read adds to its half: where it is, and its values. */
void span_calls_note(struct span_calls *calls, const struct span_pairs *pairs,
		     struct span_half *half);

/* A span was measured; `caller` was the innermost around it, or is SPAN_NONE. */
void span_calls_add(struct span_calls *calls, const struct span_half *begin,
		    const struct span_half *end, uint32_t caller, uint64_t ticks,
		    uint64_t self_ticks);

/* All was read. 0 or -ENOMEM. */
int span_calls_finish(struct span_calls *calls);

/* Whether a span, or a thread's word, has a field of that name. */
int span_calls_has(const struct trace_reader *reader, const char *field);

/*
 * Read the event at a place again: its class, and where its fields are, until the stream is read on
 * or unmapped. 0, or what went wrong.
 */
int span_place_read(struct trace_reader *reader, const struct span_place *place,
		    const struct trace_class **class, const uint8_t **fields);

#endif
