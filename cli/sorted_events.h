/* SPDX-License-Identifier: MIT */
/* Events in another order than that of time. All of them are in memory. */
#ifndef CLI_SORTED_EVENTS_H
#define CLI_SORTED_EVENTS_H

#include "read/pass/merge.h"

#include <stddef.h>

enum event_order { ORDER_TIME, ORDER_CPU, ORDER_THREAD };

struct sorted_event;

/* Zeroed: empty. Freed with sorted_events_release(). */
struct sorted_events {
	struct sorted_event **all;
	size_t count, room, next;
};

/* Add a copy, in order of time. 0 or -ENOMEM. */
int sorted_events_add(struct sorted_events *events, const struct merge_event *event,
		      enum event_order order);

/* After the last: those of one CPU, or one thread, together and in order of time. */
void sorted_events_sort(struct sorted_events *events);

/* The next one; valid until the release. 1, or 0 after the last. */
int sorted_events_next(struct sorted_events *events, struct merge_event *event);

void sorted_events_release(struct sorted_events *events);

#endif
