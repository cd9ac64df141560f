/* SPDX-License-Identifier: MIT */
#include "cli/export_slices.h"

#include "base/array.h"
#include "read/pass/summary.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 4096u /* in a thread; more are forgotten, the oldest first */

struct open_slice {
	const struct trace_class *class; /* of the begin */
	uint64_t number;
};

struct slice_thread {
	uint32_t pid, tid;
	struct open_slice *open; /* the innermost is last */
	size_t count, room;
};

struct slices {
	void *threads; /* tsearch(3)'s */
	uint64_t begun;
	uint8_t *apart; /* a bit for each span, by number */
	size_t apart_room;
};

struct slices *slices_new(void)
{
	return calloc(1, sizeof(struct slices));
}

static void thread_free(void *thread)
{
	free(((struct slice_thread *)thread)->open);
	free(thread);
}

void slices_rewind(struct slices *slices)
{
	tdestroy(slices->threads, thread_free);
	slices->threads = NULL;
	slices->begun = 0;
}

void slices_free(struct slices *slices)
{
	if (!slices)
		return;
	slices_rewind(slices);
	free(slices->apart);
	free(slices);
}

static int by_id(const void *one, const void *other)
{
	const struct slice_thread *a = one, *b = other;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* NULL: no memory. */
static struct slice_thread *thread_of(struct slices *slices, const struct merge_event *event)
{
	struct slice_thread key = { .pid = event->pid, .tid = event->tid }, *thread;
	struct slice_thread **there = tfind(&key, &slices->threads, by_id);

	if (there)
		return *there;
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	*thread = key;
	if (tsearch(thread, &slices->threads, by_id))
		return thread;
	free(thread);
	return NULL;
}

static int is_apart(const struct slices *slices, uint64_t number)
{
	return number / 8 < slices->apart_room && slices->apart[number / 8] >> number % 8 & 1;
}

static int apart_set(struct slices *slices, uint64_t number)
{
	size_t before = slices->apart_room;

	if (array_grow(&slices->apart, &slices->apart_room, number / 8 + 1, 1))
		return -ENOMEM;
	memset(slices->apart + before, 0, slices->apart_room - before);
	slices->apart[number / 8] |= (uint8_t)(1u << number % 8);
	return 0;
}

static void open_remove(struct slice_thread *thread, size_t place)
{
	memmove(&thread->open[place], &thread->open[place + 1],
		(--thread->count - place) * sizeof(*thread->open));
}

static int begin(struct slices *slices, struct slice_thread *thread,
		 const struct merge_event *event, uint64_t *number)
{
	*number = ++slices->begun;
	if (thread->count == OPEN_MAX) {
		if (apart_set(slices, thread->open[0].number))
			return -ENOMEM;
		open_remove(thread, 0);
	}
	if (array_grow(&thread->open, &thread->room, thread->count + 1, sizeof(*thread->open)))
		return -ENOMEM;
	thread->open[thread->count++] = (struct open_slice){ event->class, *number };
	return 0;
}

static int is_same_span(const struct trace_class *begin, const struct trace_class *end)
{
	size_t bytes = summary_span_bytes(begin);

	return bytes == summary_span_bytes(end) && !memcmp(begin->name, end->name, bytes);
}

/* Those that are open within it continue: they are apart. */
static int end(struct slices *slices, struct slice_thread *thread, const struct merge_event *event,
	       uint64_t *number)
{
	size_t place = thread->count;

	*number = 0;
	while (place && !is_same_span(thread->open[place - 1].class, event->class))
		place--;
	if (!place)
		return 0;
	for (size_t i = place; i < thread->count; i++)
		if (!is_apart(slices, thread->open[i].number) &&
		    apart_set(slices, thread->open[i].number))
			return -ENOMEM;
	*number = thread->open[place - 1].number;
	open_remove(thread, place - 1);
	return 0;
}

static int slice_take(struct slices *slices, const struct merge_event *event, uint64_t *number)
{
	struct slice_thread *thread = thread_of(slices, event);

	if (!thread)
		return -ENOMEM;
	return (event->class->kind == 'b' ? begin : end)(slices, thread, event, number);
}

int slices_note(struct slices *slices, const struct merge_event *event)
{
	uint64_t number;

	return slice_take(slices, event, &number);
}

int slices_take(struct slices *slices, const struct merge_event *event, enum slice_kind *kind,
		uint64_t *number)
{
	int err = slice_take(slices, event, number);

	*kind = !*number		    ? SLICE_UNPAIRED
		: is_apart(slices, *number) ? SLICE_APART
					    : SLICE_OF_THREAD;
	return err;
}
