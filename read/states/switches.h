/* SPDX-License-Identifier: MIT */
/*
 * A trace's switches, in order of time: the states of its threads, and the time of each
 * span by the states of the thread that was in it. A span that is in another counts in both.
 */
#ifndef READ_STATES_SWITCHES_H
#define READ_STATES_SWITCHES_H

#include "read/pass/merge.h"
#include "read/pass/summary.h"
#include "read/states/thread_states.h"

/* The time within the spans of one name that have ended. */
struct switch_span {
	uint64_t count; /* less than the summary's where a thread had too many open at once */
	uint64_t ns[THREAD_TIMES];
};

struct switches {
	struct pass_observer observer;
	struct thread_states states;
	struct switch_span *spans; /* by the place in the summary's spans[] */
	struct switches_reading *reading;
	/* the caller's: a number for the stack of a departure; NULL: all are 0. 0 or an error */
	int (*stack_of)(const struct merge_event *event, uint64_t place, uint32_t *stack,
			void *data);
	void *stack_data;
	/* the caller's: is given each measured span, by the event that ends it; NULL: not */
	void (*take_span)(const struct merge_event *end, uint32_t span, uint64_t begin_ticks,
			  const uint64_t ns[THREAD_TIMES], void *data);
	void *span_data;
};

/* Whether the trace declares switches. */
int switches_has(const struct trace_reader *reader);

/*
 * Begin to observe a pass over the trace. `summary` is the trace's. Returns 0 or an error. Release
 * also after an error.
 */
int switches_open(struct switches *switches, struct trace_reader *reader,
		  const struct summary *summary);

/* The pass is over. 0 or -ENOMEM. */
int switches_finish(struct switches *switches);

void switches_release(struct switches *switches);

#endif
