/* SPDX-License-Identifier: MIT */
#include "read/pass/thread_names.h"

#include "base/array.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct thread_names *names, const struct thread_name *name)
{
	if (array_grow(&names->all, &names->room, names->count + 1, sizeof(*names->all)))
		return -ENOMEM;
	names->all[names->count++] = *name;
	return 0;
}

static int is_name(const struct trace_class *class)
{
	return class->has_thread && class->count > 2 && class->types[2] == WM_TYPE_STR &&
	       (!strcmp(class->name, "task:name") || !strcmp(class->name, "task:waker"));
}

static int is_fork(const struct trace_class *class)
{
	return class->has_thread && class->count > 3 && class->types[2] == WM_TYPE_I32 &&
	       class->types[3] == WM_TYPE_I32 && !strcmp(class->name, "task:fork");
}

static int take_event(struct thread_names *names, const struct trace_class *class,
		      const uint8_t *fields, uint64_t ns)
{
	struct thread_name name = { .from_ns = ns };

	event_thread(class, fields, &name.pid, &name.tid);
	if (is_name(class)) {
		snprintf(name.comm, sizeof(name.comm), "%s", (const char *)fields + 9);
	} else if (is_fork(class)) {
		name.parent_pid = load_u32(fields + 8);
		name.parent_tid = load_u32(fields + 12);
	} else {
		return 0;
	}
	return name.tid ? add(names, &name) : 0;
}

/* What can't be read is noted by the pass that reads the events. */
static int read_stream(struct thread_names *names, struct trace_reader *reader,
		       struct trace_stream *stream)
{
	const struct trace_schema *schema = stream_schema(reader, stream);
	const struct trace_class *class;
	struct trace_packet packet;
	uint64_t offset = 0;
	const uint8_t *fields;
	int err = reader_stream_open(reader, stream);

	if (err)
		return err == -ENOMEM ? err : 0;
	while (!err && reader_stream_packet(reader, stream, &offset, &packet))
		while (!err && packet.walk.at < packet.walk.end &&
		       !reader_packet_event(&packet, schema, &class, &fields))
			err = take_event(names, class, fields,
					 reader_ns(reader, stream_clock(reader, stream),
						   packet.walk.ticks));
	reader_stream_unmap(stream);
	return err;
}

static int has_names(const struct trace_schema *schema)
{
	for (uint32_t i = 0; i < schema->count; i++)
		if (is_name(schema->classes[i]))
			return 1;
	return 0;
}

static int by_thread(const void *left, const void *right)
{
	const struct thread_name *a = left, *b = right;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

static int by_time(const void *left, const void *right)
{
	const struct thread_name *a = *(struct thread_name *const *)left;
	const struct thread_name *b = *(struct thread_name *const *)right;

	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* A new thread has its parent's name. The parent may be new as well: so in order of time. */
static int forks_resolve(struct thread_names *names)
{
	struct thread_name **forks = calloc(names->count + 1, sizeof(*forks));
	size_t count = 0;

	if (!forks)
		return -ENOMEM;
	for (size_t i = 0; i < names->count; i++)
		if (names->all[i].parent_tid)
			forks[count++] = &names->all[i];
	if (count)
		qsort(forks, count, sizeof(*forks), by_time);
	for (size_t i = 0; i < count; i++) {
		const char *comm = thread_names_find(names, forks[i]->parent_pid,
						     forks[i]->parent_tid, forks[i]->from_ns);

		if (comm && comm != forks[i]->comm)
			memcpy(forks[i]->comm, comm, sizeof(forks[i]->comm));
	}
	free(forks);
	return 0;
}

int thread_names_read(struct thread_names *names, struct trace_reader *reader)
{
	int err = 0;

	*names = (struct thread_names){ 0 };
	for (uint32_t i = 0; !err && i < reader->stream_count; i++) {
		struct trace_stream *stream = &reader->streams[i];
		struct thread_name of_stream = { .pid = stream->pid, .tid = stream->tid };

		if (!stream->packets)
			continue;
		memcpy(of_stream.comm, stream->comm, sizeof(of_stream.comm));
		if (!stream->is_of_cpu)
			err = add(names, &of_stream);
		else if (has_names(stream_schema(reader, stream)))
			err = read_stream(names, reader, stream);
	}
	if (err || !names->count)
		return err;
	qsort(names->all, names->count, sizeof(*names->all), by_thread);
	return forks_resolve(names);
}

const char *thread_names_find(const struct thread_names *names, uint32_t pid, uint32_t tid,
			      uint64_t ns)
{
	const struct thread_name key = { .pid = pid, .tid = tid, .from_ns = ns };
	size_t low = 0, high = names->count;

	/* The first that is later. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_thread(&names->all[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || names->all[low - 1].pid != pid || names->all[low - 1].tid != tid ||
	    !names->all[low - 1].comm[0])
		return NULL;
	return names->all[low - 1].comm;
}

void thread_names_release(struct thread_names *names)
{
	free(names->all);
	*names = (struct thread_names){ 0 };
}
