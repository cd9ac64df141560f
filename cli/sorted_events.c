/* SPDX-License-Identifier: MIT */
#include "cli/sorted_events.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sorted_event {
	uint64_t key;
	size_t number; /* in order of time */
	struct merge_event event;
	uint8_t fields[];
};

/* Those of no CPU are after those of all CPUs. */
static uint64_t key_of(const struct merge_event *event, enum event_order order)
{
	if (order == ORDER_CPU)
		return (uint32_t)event->stream->cpu;
	return order == ORDER_THREAD ? (uint64_t)event->pid << 32 | event->tid : 0;
}

int sorted_events_add(struct sorted_events *events, const struct merge_event *event,
		      enum event_order order)
{
	size_t bytes = event->class ? (size_t)(event->end - event->fields) : 0;
	struct sorted_event *copy;

	if (array_grow(&events->all, &events->room, events->count + 1, sizeof(*events->all)))
		return -ENOMEM;
	copy = malloc(sizeof(*copy) + bytes);
	if (!copy)
		return -ENOMEM;
	copy->key = key_of(event, order);
	copy->number = events->count;
	copy->event = *event;
	copy->event.fields = copy->fields;
	copy->event.end = copy->fields + bytes;
	if (bytes)
		memcpy(copy->fields, event->fields, bytes);
	events->all[events->count++] = copy;
	return 0;
}

static int by_key(const void *left, const void *right)
{
	const struct sorted_event *a = *(struct sorted_event *const *)left;
	const struct sorted_event *b = *(struct sorted_event *const *)right;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

void sorted_events_sort(struct sorted_events *events)
{
	if (events->count)
		qsort(events->all, events->count, sizeof(*events->all), by_key);
}

int sorted_events_next(struct sorted_events *events, struct merge_event *event)
{
	if (events->next == events->count)
		return 0;
	*event = events->all[events->next++]->event;
	return 1;
}

void sorted_events_release(struct sorted_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		free(events->all[i]);
	free(events->all);
	*events = (struct sorted_events){ 0 };
}
