/* SPDX-License-Identifier: MIT */
#include "cli/call_lines.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 65536u /* of one thread: calls that are left by longjmp() accumulate */

struct open_call {
	const struct trace_class *class; /* the begin's */
	uint64_t ns, line;
};

/* A thread's calls that have not ended; the innermost is last. */
struct call_thread {
	uint64_t id;
	struct open_call *all;
	size_t count, room;
};

static uint64_t thread_id(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

static struct call_thread *thread_find(const struct call_lines *lines, uint64_t id)
{
	uint32_t hash = slots_hash(id), number;

	for (uint64_t at = hash;
	     lines->slots.room && slots_next(&lines->slots, hash, &at, &number);)
		if (lines->threads[number].id == id)
			return &lines->threads[number];
	return NULL;
}

/* NULL: no memory. */
static struct call_thread *thread_of(struct call_lines *lines, uint64_t id)
{
	struct call_thread *thread = thread_find(lines, id);

	if (thread)
		return thread;
	if (slots_fit(&lines->slots) ||
	    array_grow(&lines->threads, &lines->thread_room, lines->thread_count + 1,
		       sizeof(*lines->threads)))
		return NULL;
	slots_add(&lines->slots, slots_hash(id), (uint32_t)lines->thread_count);
	thread = &lines->threads[lines->thread_count++];
	*thread = (struct call_thread){ .id = id };
	return thread;
}

static struct call_line *line_at(struct call_lines *lines, uint64_t number)
{
	return &lines->ring[number % CALL_LINES_MAX];
}

/* The call's line, or NULL where that was printed already. */
static struct call_line *waiting_line(struct call_lines *lines, const struct open_call *call)
{
	return call->line >= lines->first ? line_at(lines, call->line) : NULL;
}

/* The oldest calls get no end. */
static void calls_drop(struct call_lines *lines, struct call_thread *thread, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct call_line *line = waiting_line(lines, &thread->all[i]);

		if (line)
			line->waits = 0;
	}
	thread->count -= count;
	if (count && thread->count)
		memmove(thread->all, thread->all + count, thread->count * sizeof(*thread->all));
}

void call_lines_forget(struct call_lines *lines, uint32_t pid, uint32_t tid)
{
	struct call_thread *thread = thread_find(lines, thread_id(pid, tid));

	if (thread)
		calls_drop(lines, thread, thread->count);
}

static struct merge_event *event_copy(const struct merge_event *event)
{
	size_t bytes = event->class ? (size_t)(event->end - event->fields) : 0;
	struct merge_event *copy = malloc(sizeof(*copy) + bytes);

	if (!copy)
		return NULL;
	*copy = *event;
	copy->fields = (const uint8_t *)(copy + 1);
	copy->end = copy->fields + bytes;
	if (bytes)
		memcpy(copy + 1, event->fields, bytes);
	return copy;
}

/* Append a line; `event` is a copy. */
static struct call_line *line_add(struct call_lines *lines, struct merge_event *event,
				  enum call_line_kind kind)
{
	struct call_line *line = line_at(lines, lines->end++);

	*line = (struct call_line){ .kind = kind, .event = event };
	return line;
}

static int begin_add(struct call_lines *lines, struct merge_event *begin)
{
	struct call_thread *thread = thread_of(lines, thread_id(begin->pid, begin->tid));

	if (!thread ||
	    array_grow(&thread->all, &thread->room, thread->count + 1, sizeof(*thread->all)))
		return -ENOMEM;
	if (thread->count == OPEN_MAX)
		calls_drop(lines, thread, OPEN_MAX / 2);
	thread->all[thread->count++] = (struct open_call){ begin->class, begin->ns, lines->end };
	line_add(lines, begin, LINE_CALL)->waits = 1;
	return 0;
}

/* Whether NAME:begin and NAME:end have one name. */
static int is_pair(const struct trace_class *begin, const struct trace_class *end)
{
	size_t bytes = end->name_bytes - strlen(":end");

	return begin->name_bytes - strlen(":begin") == bytes &&
	       !memcmp(begin->name, end->name, bytes);
}

static void end_add(struct call_lines *lines, struct merge_event *end)
{
	struct call_thread *thread = thread_find(lines, thread_id(end->pid, end->tid));
	size_t place = thread ? thread->count : 0;
	struct open_call call = { 0 };
	struct call_line *line = NULL;

	while (place && !is_pair(thread->all[place - 1].class, end->class))
		place--;
	if (place) {
		call = thread->all[place - 1];
		line = waiting_line(lines, &call);
		memmove(&thread->all[place - 1], &thread->all[place],
			(thread->count-- - place) * sizeof(call));
	}
	if (!line) {
		line_add(lines, end, LINE_RETURN)->begin_ns = call.ns;
		return;
	}
	line->end = end;
	line->waits = 0;
}

int call_lines_add(struct call_lines *lines, const struct merge_event *event, int is_call)
{
	struct merge_event *copy = event_copy(event);
	int err = 0;

	if (!lines->ring)
		lines->ring = calloc(CALL_LINES_MAX, sizeof(*lines->ring));
	if (!copy || !lines->ring) {
		free(copy);
		return -ENOMEM;
	}
	if (!is_call)
		line_add(lines, copy, LINE_EVENT);
	else if (event->class->kind == 'b')
		err = begin_add(lines, copy);
	else
		end_add(lines, copy);
	if (err)
		free(copy);
	return err;
}

static void line_free(struct call_line *line)
{
	free(line->event);
	free(line->end);
	*line = (struct call_line){ 0 };
}

int call_lines_next(struct call_lines *lines, int is_last, struct call_line *line)
{
	line_free(&lines->shown);
	if (call_lines_is_empty(lines) || (line_at(lines, lines->first)->waits && !is_last &&
					   lines->end - lines->first < CALL_LINES_MAX))
		return 0;
	lines->shown = *line_at(lines, lines->first++);
	*line = lines->shown;
	return 1;
}

void call_lines_release(struct call_lines *lines)
{
	line_free(&lines->shown);
	for (; lines->first < lines->end; lines->first++)
		line_free(line_at(lines, lines->first));
	for (size_t i = 0; i < lines->thread_count; i++)
		free(lines->threads[i].all);
	free(lines->threads);
	free(lines->slots.all);
	free(lines->ring);
	*lines = (struct call_lines){ 0 };
}
