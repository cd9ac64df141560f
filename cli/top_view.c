/* SPDX-License-Identifier: MIT */
/* The order of what is shown. */
#include "cli/top_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int events_order(const void *one, const void *other)
{
	const struct top_event *a = *(const struct top_event *const *)one;
	const struct top_event *b = *(const struct top_event *const *)other;

	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int spans_order(const void *one, const void *other)
{
	const struct top_span *a = *(const struct top_span *const *)one;
	const struct top_span *b = *(const struct top_span *const *)other;

	if (a->sum_ns != b->sum_ns)
		return a->sum_ns > b->sum_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

static int threads_order(const void *one, const void *other)
{
	const struct top_thread *a = *(const struct top_thread *const *)one;
	const struct top_thread *b = *(const struct top_thread *const *)other;

	for (int state = TOP_RUNNING; state <= TOP_READY; state++)
		if (a->ns[state] != b->ns[state])
			return a->ns[state] > b->ns[state] ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int had_time(const struct top_thread *thread)
{
	return thread->is_seen || thread->ns[TOP_RUNNING] > 0 || thread->ns[TOP_READY] > 0 ||
	       thread->ns[TOP_ASLEEP] > 0;
}

int top_view_sort(struct top_view *view)
{
	const struct top_count *count = view->count;

	view->event_count = view->span_count = view->thread_count = 0;
	view->events = calloc(count->event_count + 1, sizeof(struct top_event *));
	view->spans = calloc(count->span_count + 1, sizeof(struct top_span *));
	view->threads = calloc(count->threads.count + 1, sizeof(struct top_thread *));
	if (!view->events || !view->spans || !view->threads)
		return -ENOMEM;
	for (size_t i = 0; i < count->event_count; i++)
		if (count->events[i].count)
			view->events[view->event_count++] = &count->events[i];
	for (size_t i = 0; i < count->span_count; i++)
		if (count->spans[i]->times.count || count->spans[i]->open)
			view->spans[view->span_count++] = count->spans[i];
	for (size_t i = 0; i < count->threads.count; i++)
		if (had_time(&count->threads.all[i]))
			view->threads[view->thread_count++] = &count->threads.all[i];
	qsort(view->events, view->event_count, sizeof(struct top_event *), events_order);
	qsort(view->spans, view->span_count, sizeof(struct top_span *), spans_order);
	qsort(view->threads, view->thread_count, sizeof(struct top_thread *), threads_order);
	return 0;
}

void top_view_release(struct top_view *view)
{
	free(view->events);
	free(view->spans);
	free(view->threads);
	view->events = NULL;
	view->spans = NULL;
	view->threads = NULL;
}
