/* SPDX-License-Identifier: MIT */
/* The cost of spans: the differences of the counts of their begins and ends (abi/cost.h). */
#ifndef READ_SPANS_SPAN_COST_H
#define READ_SPANS_SPAN_COST_H

#include "read/pass/summary.h"

/* The counts of an event class. */
struct span_costs {
	uint8_t count;
	/* their places in the span's costs[]; SUMMARY_COSTS_MAX: there was no room */
	uint8_t places[SUMMARY_COSTS_MAX];
};

/* Find the counts of a class in its span, or add them there. */
void span_costs_find(struct span_costs *costs, struct summary_span *span,
		     const struct trace_class *class);

/* The values of an event's counts, whose fields end at `end`. */
void span_costs_take(const struct span_costs *costs, const uint8_t *end,
		     uint64_t values[SUMMARY_COSTS_MAX]);

/* A span began with these values, and ends with the event whose fields end at `end`. */
void span_costs_add(struct summary_span *span, const struct span_costs *begin,
		    const uint64_t values[SUMMARY_COSTS_MAX], const struct span_costs *costs,
		    const uint8_t *end);

#endif
