/* SPDX-License-Identifier: MIT */
#include "trace/trail/thread_list.h"

#include "base/array.h"

#include <stdlib.h>

int trail_threads_add(struct trail_threads *threads, const struct trace_stream *stream,
		      uint32_t tid, int is_over, uint64_t blocks)
{
	if (array_grow(&threads->all, &threads->room, threads->count + 1, sizeof(*threads->all)))
		return -ENOMEM;
	threads->all[threads->count++] = (struct trail_thread_entry){
		.process = stream->process,
		.tid = tid,
		.blocks = is_over ? blocks : 0,
		.begun = !is_over,
		.over = is_over != 0,
		.file = stream->file,
	};
	return 0;
}

static int by_thread(const void *one, const void *other)
{
	const struct trail_thread_entry *a = one, *b = other;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Streams are sorted in the same way. */
static int has_stream(const struct trace_reader *reader, const struct trail_thread_entry *thread)
{
	uint32_t low = 0, high = reader->stream_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct trace_stream *stream = &reader->streams[middle];
		struct trail_thread_entry at = { .process = stream->process, .tid = stream->tid };
		int order = by_thread(&at, thread);

		if (!order)
			return 1;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

void trail_threads_settle(struct trail_threads *threads, const struct trace_reader *reader)
{
	size_t kept = 0;

	if (threads->count)
		qsort(threads->all, threads->count, sizeof(*threads->all), by_thread);
	for (size_t i = 0; i < threads->count; i++) {
		struct trail_thread_entry *last = kept ? &threads->all[kept - 1] : NULL;

		if (last && !by_thread(last, &threads->all[i])) {
			last->blocks += threads->all[i].blocks;
			last->begun += threads->all[i].begun;
			last->over += threads->all[i].over;
		} else {
			threads->all[kept++] = threads->all[i];
		}
	}
	threads->count = kept;
	for (size_t i = 0; i < threads->count; i++)
		threads->all[i].is_missing = !has_stream(reader, &threads->all[i]);
}

const struct trail_thread_entry *trail_threads_find(const struct trail_threads *threads,
						    uint32_t process, uint32_t tid)
{
	struct trail_thread_entry thread = { .process = process, .tid = tid };

	return threads->count
		       ? bsearch(&thread, threads->all, threads->count, sizeof(thread), by_thread)
		       : NULL;
}

void trail_threads_release(struct trail_threads *threads)
{
	free(threads->all);
	*threads = (struct trail_threads){ 0 };
}
