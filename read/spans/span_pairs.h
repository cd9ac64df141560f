/* SPDX-License-Identifier: MIT */
/*
 * Begins and ends of spans, put together. Streams are read one after another, those of a thread
 * together. A thread has one for each depth of its hits, and one for its hits on other stacks than
 * its own: so a begin and its end may be in two.
 */
#ifndef READ_SPANS_SPAN_PAIRS_H
#define READ_SPANS_SPAN_PAIRS_H

#include "base/array.h"
#include "read/pass/summary.h"

#include <stddef.h>
#include <string.h>

/* The counts of an event class. */
struct span_costs {
	uint8_t count;
	/* their places in the span's costs[]; SUMMARY_COSTS_MAX: there was no room */
	uint8_t places[SUMMARY_COSTS_MAX];
};

/* Find the counts of a class in its span, or add them there. */
void span_costs_find(struct span_costs *costs, struct summary_span *span,
		     const struct trace_class *class);

#define SPAN_BY_MAX 3 /* fields that spans are grouped by */

/* Where an event is in a trace. */
struct span_place {
	uint64_t packet; /* in its stream's file */
	uint32_t stream; /* of the reader's */
	uint32_t at;	 /* its fields, in the packet */
};

/* A begin, or an end alone. */
struct span_half {
	uint32_t span; /* its place in all[] */
	int is_end;
	uint64_t ticks;
	uint64_t within;  /* so far, in spans that began in it */
	uint64_t counted; /* so far, in a span around it that has ended */
	const struct span_costs *costs;
	uint64_t values[SUMMARY_COSTS_MAX]; /* of the counts; or the times by state */
	/* by span_calls_note() alone */
	struct span_place place;
	const char *fields[SPAN_BY_MAX];
};

/* The begins in one stream whose ends have not come; the innermost is last. Zeroed: none. */
struct span_stack {
	struct span_half *all;
	uint32_t count;
	size_t room;
};

/* Room for one more, which the caller fills. NULL: no memory. */
static inline struct span_half *span_stack_push(struct span_stack *stack, uint32_t span)
{
	struct span_half *half;

	if (array_grow(&stack->all, &stack->room, stack->count + 1ul, sizeof(*stack->all)))
		return NULL;
	half = &stack->all[stack->count++];
	half->span = span;
	half->is_end = 0;
	return half;
}

/* The innermost begin of that span; NULL: there is none. Spans within it may end later. */
static inline struct span_half *span_stack_find(const struct span_stack *stack, uint32_t span)
{
	uint32_t place = stack->count;

	while (place && stack->all[place - 1].span != span)
		place--;
	return place ? &stack->all[place - 1] : NULL;
}

static inline void span_stack_remove(struct span_stack *stack, struct span_half *half)
{
	struct span_half *last = stack->all + --stack->count;

	if (half != last)
		memmove(half, half + 1, (size_t)((char *)last - (char *)half));
}

static inline void span_stack_remove_oldest(struct span_stack *stack, uint32_t count)
{
	stack->count -= count;
	if (count && stack->count)
		memmove(stack->all, stack->all + count, stack->count * sizeof(*stack->all));
}

/* Zeroed but for `all`. */
struct span_pairs {
	struct summary_span *all;
	struct span_stack open;	 /* of the stream being read */
	struct span_half *alone; /* of the thread, whose other halves may be in its other streams */
	size_t alone_count, alone_room;
	size_t alone_end; /* the stream being read may have some up to here */
	int has_alone;
	const struct span_half *replayed; /* one of `alone` that is put together now */
	struct span_calls *calls;	  /* is given each measured span, or NULL */
	struct summary_slicing slicing;	  /* of the stream being read */
	/* then the event that is being read: */
	struct span_place place;
	const struct trace_class *class;
	const uint8_t *fields;
};

/* The times of every span that has not been measured yet. */
extern struct histogram span_unmeasured;

/* Another thread's streams follow: the former one's are complete. `has_many` without a gap. */
void span_pairs_thread(struct span_pairs *pairs, int has_many);
void span_pairs_stream(struct span_pairs *pairs);
void span_pairs_stream_end(struct span_pairs *pairs);

/* `end`: of the event's fields. */
void span_pairs_begin(struct span_pairs *pairs, uint32_t span, const struct span_costs *costs,
		      uint64_t ticks, const uint8_t *end);
void span_pairs_end(struct span_pairs *pairs, uint32_t span, const struct span_costs *costs,
		    uint64_t ticks, const uint8_t *end);

/* A gap: no span that is open can be measured any more. */
void span_pairs_forget(struct span_pairs *pairs);
void span_pairs_release(struct span_pairs *pairs);

#endif
