/* SPDX-License-Identifier: MIT */
/* The order of what is shown; and JSON. */
#include "cli/json.h"
#include "cli/top_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static uint64_t state_ns(const struct top_thread *thread, enum top_state state)
{
	return thread->ns[state] > 0 ? (uint64_t)thread->ns[state] : 0;
}

double top_thread_percent(const struct top_view *view, const struct top_thread *thread,
			  enum top_state state)
{
	uint64_t length_ns = view->count->threads.end_ns - view->count->threads.begin_ns;

	return length_ns ? 100.0 * (double)state_ns(thread, state) / (double)length_ns : 0;
}

/* ---- JSON ---- */

static size_t most(const struct top_view *view, size_t count)
{
	return view->row_max && count > view->row_max ? view->row_max : count;
}

static void json_events(struct json *json, const struct top_view *view)
{
	json_open(json, "events", '[');
	for (size_t i = 0; i < most(view, view->event_count); i++) {
		json_open(json, NULL, '{');
		json_string(json, "name", view->events[i]->name);
		json_number(json, "count", view->events[i]->count);
		json_decimal(json, "rate", (double)view->events[i]->count / view->seconds, 1);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_spans(struct json *json, const struct top_view *view)
{
	json_open(json, "spans", '[');
	for (size_t i = 0; i < most(view, view->span_count); i++) {
		const struct top_span *span = view->spans[i];
		uint64_t count = span->times.count;

		json_open(json, NULL, '{');
		json_string(json, "name", span->name);
		json_number(json, "count", count);
		json_number(json, "total_ns", span->sum_ns);
		if (count) {
			json_number(json, "mean_ns", span->sum_ns / count);
			json_number(json, "p99_ns", histogram_quantile(&span->times, 0.99));
			json_number(json, "max_ns", span->times.max);
		}
		json_number(json, "open", span->open);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_functions(struct json *json, const struct top_view *view)
{
	json_open(json, "functions", '[');
	for (size_t i = 0; i < most(view, view->function_count); i++) {
		json_open(json, NULL, '{');
		json_string(json, "name", view->functions[i].name);
		json_string(json, "module", view->functions[i].module);
		json_number(json, "samples", view->functions[i].samples);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_threads(struct json *json, const struct top_view *view)
{
	json_open(json, "threads", '[');
	for (size_t i = 0; i < most(view, view->thread_count); i++) {
		const struct top_thread *thread = view->threads[i];

		json_open(json, NULL, '{');
		json_number(json, "pid", thread->pid);
		json_number(json, "tid", thread->tid);
		json_string(json, "name", thread->comm);
		json_number(json, "running_ns", state_ns(thread, TOP_RUNNING));
		json_number(json, "runnable_ns", state_ns(thread, TOP_READY));
		json_number(json, "asleep_ns", state_ns(thread, TOP_ASLEEP));
		if (view->has_times_alone)
			json_null(json, "switches");
		else
			json_number(json, "switches", thread->switches);
		json_close(json, '}');
	}
	json_close(json, ']');
}

static void json_others(struct json *json, const struct top_count *count)
{
	json_open(json, "others", '{');
	json_number(json, "events", count->other_events);
	json_number(json, "spans", count->other_spans);
	json_number(json, "samples", count->other_samples);
	json_number(json, "switches", count->threads.other_switches);
	json_close(json, '}');
}

int top_show_json(const struct top_view *view, ssize_t (*write)(int, const void *, size_t))
{
	static struct out out;
	struct json json = { &out, 0 };
	const struct top_count *count = view->count;

	out_init(&out, STDOUT_FILENO);
	out.write = write;
	json_open(&json, NULL, '{');
	json_string(&json, "what", view->what);
	json_decimal(&json, "at_s", view->at_s, 6);
	json_decimal(&json, "interval_s", view->seconds, 6);
	json_bool(&json, "is_last", view->is_last);
	json_number(&json, "processes", view->processes);
	json_number(&json, "event_total", count->event_total);
	json_events(&json, view);
	json_spans(&json, view);
	json_number(&json, "sample_total", count->sample_total);
	json_functions(&json, view);
	json_number(&json, "thread_interval_ns", count->threads.end_ns - count->threads.begin_ns);
	json_threads(&json, view);
	json_others(&json, count);
	json_number(&json, "lost", view->lost);
	json_number(&json, "lost_by_kernel", count->kernel_lost);
	json_number(&json, "throttled", count->throttled);
	json_words(&json, "left_out", view->left_out);
	json_close(&json, '}');
	out_char(&out, '\n');
	return out_flush(&out);
}
