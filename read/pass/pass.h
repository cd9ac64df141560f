/* SPDX-License-Identifier: MIT */
/*
 * One pass over a trace's events in order of time, for several observers. Each names the event
 * classes that it needs; streams that no observer needs are not read.
 */
#ifndef READ_PASS_PASS_H
#define READ_PASS_PASS_H

#include "read/pass/merge.h"

#define PASS_OBSERVERS_MAX 8

/* The first member of what observes. */
struct pass_observer {
	/* Asked before the first event, for each class of each process, by its number. */
	int (*wants)(const struct pass_observer *observer, uint32_t process,
		     const struct trace_class *class);
	/*
	 * An event of such a class; or any event, also without a class, where something is missing
	 * before it in a stream with such classes (pass_is_gap()). 0, or what ends the pass.
	 */
	int (*take)(struct pass_observer *observer, const struct merge_event *event);
};

/* Whether events before this one are lost, missing or damaged. */
static inline int pass_is_gap(const struct merge_event *event)
{
	return !event->class || event->lost || event->missing_packets || event->is_after_damage;
}

/* 0, a negative error, or what an observer returned. */
int pass_read(struct trace_reader *reader, struct pass_observer *const *observers,
	      unsigned int count);

#endif
