/* SPDX-License-Identifier: MIT */
#include "cli/top_count.h"

#include "base/array.h"
#include "read/spans/span_pairs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPANNING_MAX 16384u /* a power of two, over TOP_ROWS_MAX */

/* An event's id and whether the kernel wrote it: what to do with it. */
struct top_name {
	uint8_t kind;
	uint32_t row;		/* 1 and up, of events[] or of spans[]; 0: it had no room */
	uint64_t last;		/* of "count:NAME" */
	uint32_t last_is_known; /* there was one before */
};

struct top_spanning {
	uint64_t thread; /* pid and tid; 0: a free place */
	struct span_stack open;
};

int top_count_init(struct top_count *count)
{
	count->addresses = calloc(TOP_ADDRESS_ROOM, sizeof(*count->addresses));
	count->spanning = calloc(SPANNING_MAX, sizeof(*count->spanning));
	count->events = calloc(TOP_ROWS_MAX, sizeof(*count->events));
	count->spans = calloc(TOP_SPANS_MAX, sizeof(struct top_span *));
	if (!count->addresses || !count->spanning || !count->events || !count->spans)
		return -ENOMEM;
	return 0;
}

static void spanning_clear(struct top_count *count)
{
	for (size_t i = 0; count->spanning && i < SPANNING_MAX; i++)
		free(count->spanning[i].open.all);
	if (count->spanning)
		memset(count->spanning, 0, SPANNING_MAX * sizeof(*count->spanning));
	count->spanning_count = 0;
}

/* All names make room, and are taken in again as they come: their counts were shown. */
static void names_forget(struct top_count *count)
{
	for (size_t i = 0; i < count->event_count; i++)
		free(count->events[i].name);
	for (size_t i = 0; i < count->span_count; i++) {
		free(count->spans[i]->name);
		free(count->spans[i]);
	}
	count->event_count = count->span_count = 0;
	spanning_clear(count);
	if (count->name_room)
		memset(count->names, 0, count->name_room * sizeof(*count->names));
}

void top_count_release(struct top_count *count)
{
	names_forget(count);
	top_threads_release(&count->threads);
	free(count->events);
	free(count->spans);
	free(count->addresses);
	free(count->names);
	free(count->spanning);
	*count = (struct top_count){ 0 };
}

/* ---- names ---- */

/* The kernel's events that no CPU recorded; a program's markers may have the same names. */
static int is_of_no_cpu(const struct top_count *count, const struct wm_event *event)
{
	static const struct {
		const char *name, *field;
	} own[] = { { "count:", "enabled_ns" },
		    { "switch:runnable", "wait_ns" },
		    { "task:name", "name" },
		    { "task:waker", "name" } };

	for (size_t i = 0; count->has_kernel && i < sizeof(own) / sizeof(own[0]); i++)
		if (!strncmp(event->name, own[i].name, strlen(own[i].name)) &&
		    wm_event_field_find(event, own[i].field))
			return 1;
	return 0;
}

static enum top_kind kind_of(const struct top_count *count, const struct wm_event *event)
{
	static const struct {
		const char *name;
		enum top_kind kind;
	} own[] = {
		{ "switch:depart", TOP_DEPART }, { "switch:arrive", TOP_ARRIVE },
		{ "switch:wake", TOP_WAKE },	 { "switch:runnable", TOP_RUNNABLE },
		{ "task:name", TOP_NAME },	 { "task:waker", TOP_NAME },
		{ "task:fork", TOP_FORK },	 { "task:exit", TOP_EXIT },
		{ "kernel:lost", TOP_LOST },	 { "kernel:throttled", TOP_THROTTLED },
	};

	if (event->kind == 's')
		return TOP_SUM;
	if (event->kind == 'b')
		return TOP_BEGIN;
	if (event->kind == 'e')
		return TOP_END;
	if (event->cpu < 0 && !is_of_no_cpu(count, event))
		return TOP_PLAIN;
	if (!strncmp(event->name, "count:", 6))
		return TOP_COUNT;
	if (!strncmp(event->name, "sample:", 7))
		return TOP_SAMPLE;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (!strcmp(event->name, own[i].name))
			return own[i].kind;
	return TOP_PLAIN;
}

static uint32_t event_add(struct top_count *count, const char *text)
{
	struct top_event *event = &count->events[count->event_count];

	if (count->event_count == TOP_ROWS_MAX)
		return 0;
	event->name = strdup(text);
	event->count = 0;
	event->is_grown = 0;
	return event->name ? (uint32_t)++count->event_count : 0;
}

/* The span of a begin or an end, whose names have that behind. */
static uint32_t span_add(struct top_count *count, const char *text, enum top_kind kind)
{
	size_t suffix = strlen(kind == TOP_BEGIN ? ":begin" : ":end"), bytes = strlen(text);
	struct top_span *span;

	bytes -= bytes > suffix ? suffix : 0;
	for (size_t i = 0; i < count->span_count; i++)
		if (!strncmp(count->spans[i]->name, text, bytes) && !count->spans[i]->name[bytes])
			return (uint32_t)i + 1;
	if (count->span_count == TOP_SPANS_MAX)
		return 0;
	span = calloc(1, sizeof(*span));
	if (!span)
		return 0;
	span->name = strndup(text, bytes);
	if (!span->name) {
		free(span);
		return 0;
	}
	count->spans[count->span_count++] = span;
	return (uint32_t)count->span_count;
}

/* NULL: no memory. */
static struct top_name *name_of(struct top_count *count, const struct wm_event *event)
{
	size_t place = 2 * (size_t)event->id + (event->cpu >= 0), before = count->name_room;
	struct top_name *name;

	if (place >= before) {
		if (array_grow(&count->names, &count->name_room, place + 1, sizeof(*name)))
			return NULL;
		memset(count->names + before, 0, (count->name_room - before) * sizeof(*name));
	}
	name = &count->names[place];
	if (name->kind != TOP_NEW)
		return name;
	name->kind = (uint8_t)kind_of(count, event);
	if (!event->id)
		name->row = 0; /* names that are too many for the session itself */
	else if (name->kind == TOP_PLAIN || name->kind == TOP_COUNT)
		name->row = event_add(count, event->name);
	else if (name->kind == TOP_BEGIN || name->kind == TOP_END)
		name->row = span_add(count, event->name, (enum top_kind)name->kind);
	return name;
}

/* ---- spans ---- */

/* NULL: there is no room. */
static struct top_spanning *spanning_of(struct top_count *count, uint64_t thread)
{
	size_t at = count->spanning_at;

	if (count->spanning[at].thread == thread)
		return &count->spanning[at];
	at = (size_t)(thread * 0x9e3779b97f4a7c15u >> 50);
	while (count->spanning[at].thread && count->spanning[at].thread != thread)
		at = (at + 1) & (SPANNING_MAX - 1);
	if (!count->spanning[at].thread) {
		if (count->spanning_count == TOP_ROWS_MAX)
			return NULL;
		count->spanning[at].thread = thread;
		count->spanning_count++;
	}
	count->spanning_at = at;
	return &count->spanning[at];
}

static void span_begin(struct top_count *count, struct span_stack *open, uint32_t row,
		       uint64_t time_ns)
{
	struct span_half *half;

	if (open->count == TOP_OPEN_MAX) {
		count->spans[open->all[0].span - 1]->open--;
		span_stack_remove_oldest(open, 1);
	}
	half = span_stack_push(open, row);
	if (!half)
		return; /* its end is then one without a begin */
	half->ticks = time_ns;
	count->spans[row - 1]->open++;
}

static void span_end(struct top_count *count, struct span_stack *open, uint32_t row,
		     uint64_t time_ns)
{
	struct span_half *half = span_stack_find(open, row);
	struct top_span *span = count->spans[row - 1];

	if (!half)
		return; /* it began before we came */
	time_ns -= half->ticks;
	span_stack_remove(open, half);
	span->open--;
	span->sum_ns += time_ns;
	summary_time_add(&span->times, time_ns);
}

static void take_span(struct top_count *count, const struct wm_event *event,
		      const struct top_name *name)
{
	struct top_spanning *spanning = name->row ? spanning_of(count, (uint64_t)event->pid << 32 |
									       event->tid)
						  : NULL;

	if (!spanning)
		count->other_spans += name->kind == TOP_END;
	else if (name->kind == TOP_BEGIN)
		span_begin(count, &spanning->open, name->row, event->realtime_ns);
	else
		span_end(count, &spanning->open, name->row, event->realtime_ns);
}

void top_count_gap(struct top_count *count)
{
	for (size_t i = 0; i < SPANNING_MAX; i++)
		count->spanning[i].open.count = 0;
	for (size_t i = 0; i < count->span_count; i++)
		count->spans[i]->open = 0;
}

/* ---- what the kernel writes ---- */

static uint64_t number_of(const struct wm_event *event, const char *field)
{
	uint64_t value = 0;

	wm_event_field_u64(wm_event_field_find(event, field), &value);
	return value;
}

static void take_sample(struct top_count *count, const struct wm_event *event)
{
	uint64_t ip = number_of(event, "ip");
	size_t at = (size_t)((ip ^ (uint64_t)event->pid << 40) * 0x9e3779b97f4a7c15u >> 49);
	struct top_address *address;

	count->sample_total++;
	while (count->addresses[at].samples &&
	       (count->addresses[at].ip != ip || count->addresses[at].pid != event->pid))
		at = (at + 1) & (TOP_ADDRESS_ROOM - 1);
	address = &count->addresses[at];
	if (!address->samples && count->address_count == TOP_ADDRESS_ROOM / 2) {
		count->other_samples++;
		return;
	}
	count->address_count += !address->samples;
	*address = (struct top_address){ ip, address->samples + 1, event->pid };
}

static void take_count(struct top_count *count, const struct wm_event *event, struct top_name *name)
{
	uint64_t value = number_of(event, "count");

	if (name->row)
		count->events[name->row - 1].is_grown = 1;
	/* they are written at the begin, too: what was counted before is not of this interval */
	if (name->last_is_known && name->row && value > name->last)
		count->events[name->row - 1].count += value - name->last;
	name->last = value;
	name->last_is_known = 1;
}

static enum top_state state_after(const struct wm_event *event)
{
	int64_t state = '?';

	wm_event_field_s64(wm_event_field_find(event, "state"), &state);
	if (number_of(event, "is_preempted") || state == 'R')
		return TOP_READY;
	return state == 'X' || state == 'Z' ? TOP_ENDED : TOP_ASLEEP;
}

static int take_switch(struct top_count *count, const struct wm_event *event, enum top_kind kind)
{
	struct top_switch one = { .time_ns = event->realtime_ns,
				  .pid = event->pid,
				  .tid = event->tid };

	if (!event->tid)
		return 0; /* the idle thread of a CPU */
	one.step = kind == TOP_DEPART	? TOP_STEP_DEPART
		   : kind == TOP_ARRIVE ? TOP_STEP_ARRIVE
		   : kind == TOP_WAKE	? TOP_STEP_WAKE
		   : kind == TOP_EXIT	? TOP_STEP_EXIT
					: TOP_STEP_SAMPLE;
	one.state = kind == TOP_DEPART ? (uint8_t)state_after(event) : TOP_UNKNOWN;
	count->has_wakes |= kind == TOP_WAKE;
	return top_threads_take(&count->threads, &one);
}

/* A new thread has the name of its parent, which /proc may soon not have any more. */
static void take_name(struct top_count *count, const struct wm_event *event, enum top_kind kind)
{
	uint64_t parent = kind == TOP_FORK ? number_of(event, "parent_tid") : 0;
	const struct top_thread *from = parent ? top_threads_get(&count->threads, (uint32_t)parent,
								 0)
					       : NULL;
	const char *name = from ? from->comm : NULL;
	char comm[sizeof(from->comm)];
	struct top_thread *thread;

	if (kind == TOP_NAME)
		wm_event_field_string(wm_event_field_find(event, "name"), &name);
	if (!name || !*name || !event->tid)
		return;
	snprintf(comm, sizeof(comm), "%s", name);
	/* at the begin all threads of the machine may be named: not all do something */
	thread = top_threads_get(&count->threads, event->tid, event->cpu >= 0);
	if (!thread || (kind == TOP_FORK && thread->comm[0] && thread->state != TOP_ENDED))
		return;
	thread->pid = event->pid;
	memcpy(thread->comm, comm, sizeof(comm));
}

int top_count_take(struct top_count *count, const struct wm_event *event)
{
	struct top_name *name = name_of(count, event);
	int err = 0;

	if (!name)
		return -ENOMEM;
	switch ((enum top_kind)name->kind) {
	case TOP_BEGIN:
	case TOP_END:
		take_span(count, event, name);
		break;
	case TOP_SAMPLE:
		take_sample(count, event);
		/* where switches are not recorded, a sample does not say for how long it runs */
		err = count->has_switches ? take_switch(count, event, TOP_SAMPLE) : 0;
		break;
	case TOP_COUNT:
		take_count(count, event, name);
		break;
	case TOP_DEPART:
	case TOP_ARRIVE:
	case TOP_WAKE:
	case TOP_EXIT:
		err = !count->has_switches ? 0
					   : take_switch(count, event, (enum top_kind)name->kind);
		break;
	case TOP_NAME:
	case TOP_FORK:
		if (count->has_switches)
			take_name(count, event, (enum top_kind)name->kind);
		break;
	case TOP_LOST:
		count->kernel_lost += number_of(event, "count");
		break;
	case TOP_THROTTLED:
		count->throttled++;
		break;
	case TOP_SUM:
		break; /* top_sums_take() */
	case TOP_RUNNABLE:
		break; /* of the begin and the end alone: top reads it by itself */
	case TOP_NEW:
	case TOP_PLAIN:
		count->event_total++;
		if (name->row)
			count->events[name->row - 1].count++;
		else
			count->other_events++;
		break;
	}
	return err ? err : name->kind;
}

/* ---- the next interval ---- */

/* Threads without an open span make room. */
static void spanning_sweep(struct top_count *count)
{
	struct top_spanning *before = count->spanning;
	struct top_spanning *after = calloc(SPANNING_MAX, sizeof(*after));

	if (!after)
		return;
	count->spanning = after;
	count->spanning_count = 0;
	for (size_t i = 0; i < SPANNING_MAX; i++) {
		if (before[i].open.count)
			*spanning_of(count, before[i].thread) = before[i];
		else
			free(before[i].open.all);
	}
	free(before);
}

void top_count_next(struct top_count *count)
{
	if (count->event_count == TOP_ROWS_MAX || count->span_count == TOP_SPANS_MAX)
		names_forget(count);
	else if (count->spanning_count == TOP_ROWS_MAX)
		spanning_sweep(count);
	for (size_t i = 0; i < count->event_count; i++)
		count->events[i].count = 0;
	for (size_t i = 0; i < count->span_count; i++) {
		if (count->spans[i]->times.count) {
			memset(&count->spans[i]->times, 0, sizeof(count->spans[i]->times));
			count->spans[i]->sum_ns = 0;
		}
	}
	if (count->address_count)
		memset(count->addresses, 0, TOP_ADDRESS_ROOM * sizeof(*count->addresses));
	count->address_count = 0;
	count->event_total = count->other_events = count->other_spans = 0;
	count->sample_total = count->other_samples = count->kernel_lost = count->throttled = 0;
	top_threads_next(&count->threads);
}
