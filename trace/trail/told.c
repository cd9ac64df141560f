/* SPDX-License-Identifier: MIT */
#include "trace/trail/told.h"

#include "base/array.h"

#include <stdlib.h>

int trail_told_add(struct trail_told *told, const struct trace_stream *stream, uint32_t tid,
		   int is_over, uint64_t blocks)
{
	if (array_grow(&told->all, &told->room, told->count + 1, sizeof(*told->all)))
		return -ENOMEM;
	told->all[told->count++] = (struct trail_told_thread){
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
	const struct trail_told_thread *a = one, *b = other;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Streams are sorted in the same way. */
static int has_stream(const struct trace_reader *reader, const struct trail_told_thread *thread)
{
	uint32_t low = 0, high = reader->stream_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct trace_stream *stream = &reader->streams[middle];
		struct trail_told_thread at = { .process = stream->process, .tid = stream->tid };
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

void trail_told_settle(struct trail_told *told, const struct trace_reader *reader)
{
	size_t kept = 0;

	if (told->count)
		qsort(told->all, told->count, sizeof(*told->all), by_thread);
	for (size_t i = 0; i < told->count; i++) {
		struct trail_told_thread *last = kept ? &told->all[kept - 1] : NULL;

		if (last && !by_thread(last, &told->all[i])) {
			last->blocks += told->all[i].blocks;
			last->begun += told->all[i].begun;
			last->over += told->all[i].over;
		} else {
			told->all[kept++] = told->all[i];
		}
	}
	told->count = kept;
	for (size_t i = 0; i < told->count; i++)
		told->all[i].is_missing = !has_stream(reader, &told->all[i]);
}

const struct trail_told_thread *trail_told_find(const struct trail_told *told, uint32_t process,
						uint32_t tid)
{
	struct trail_told_thread thread = { .process = process, .tid = tid };

	return told->count ? bsearch(&thread, told->all, told->count, sizeof(thread), by_thread)
			   : NULL;
}

void trail_told_release(struct trail_told *told)
{
	free(told->all);
	*told = (struct trail_told){ 0 };
}
