/* SPDX-License-Identifier: MIT */
#include "trace/trail/pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A thread; arrays of them are in the order of creation. */
struct thread {
	const struct trail_path *path;
	uint32_t process; /* the how manyth that has trails */
	int is_in_order;
	struct thread *other;
};

static int by_coming(const void *left, const void *right)
{
	const struct trace_stream *a = ((const struct thread *)left)->path->stream;
	const struct trace_stream *b = ((const struct thread *)right)->path->stream;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	if (a->begin_ticks != b->begin_ticks)
		return a->begin_ticks < b->begin_ticks ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* The first thread with this tid that is not in order yet: the kernel reuses numbers. */
static struct thread *made_one(struct thread *threads, size_t count, uint64_t tid)
{
	for (size_t i = 0; i < count; i++)
		if (threads[i].path->stream->tid == tid && !threads[i].is_in_order)
			return &threads[i];
	return NULL;
}

/*
 * Order a process's threads by creation: the parent's trail has that order, and which thread ran
 * first is chance. Each thread is followed by the threads that it created.
 */
static void put_in_order(struct thread *ordered, struct thread *threads, size_t count)
{
	size_t put = 0, looked_at = 0;

	for (size_t next = 0; put < count; next++) {
		if (threads[next].is_in_order)
			continue;
		threads[next].is_in_order = 1;
		ordered[put++] = threads[next];
		for (; looked_at < put; looked_at++) {
			const struct trail_path *path = ordered[looked_at].path;

			for (size_t i = 0; i < path->count; i++) {
				const struct trail_part *part = &path->parts[i];
				struct thread *made = part->count || part->between.event !=
									      TRAIL_FORK
							      ? NULL
							      : made_one(threads, count,
									 part->between.values[0]);

				if (!made)
					continue;
				made->is_in_order = 1;
				ordered[put++] = *made;
			}
		}
	}
}

/* The caller's to free; NULL: no memory. */
static struct thread *threads_of(const struct trails *trails)
{
	struct thread *threads = calloc(trails->path_count + 1, sizeof(*threads));
	struct thread *ordered = calloc(trails->path_count + 1, sizeof(*ordered));
	size_t first = 0;
	uint32_t process = 0;

	if (!threads || !ordered) {
		free(threads);
		free(ordered);
		return NULL;
	}
	for (size_t i = 0; i < trails->path_count; i++)
		threads[i].path = &trails->paths[i];
	qsort(threads, trails->path_count, sizeof(*threads), by_coming);
	for (size_t i = 0; i < trails->path_count; i++) {
		threads[i].process = process;
		if (i + 1 < trails->path_count &&
		    threads[i + 1].path->stream->process == threads[i].path->stream->process)
			continue;
		put_in_order(ordered + first, threads + first, i + 1 - first);
		first = i + 1;
		process++;
	}
	free(threads);
	return ordered;
}

static int is_counterpart(const struct thread *a, const struct thread *b, int pass)
{
	if (b->other || (pass < 2 && a->process != b->process))
		return 0;
	return pass || !strcmp(a->path->stream->comm, b->path->stream->comm);
}

static void pair_up(struct thread *a, size_t count_a, struct thread *b, size_t count_b)
{
	for (int pass = 0; pass < 3; pass++)
		for (size_t i = 0; i < count_a; i++)
			for (size_t j = 0; j < count_b && !a[i].other; j++)
				if (is_counterpart(&a[i], &b[j], pass)) {
					a[i].other = &b[j];
					b[j].other = &a[i];
				}
}

int trails_pair(struct trail_pair **pairs, size_t *count, const struct trails *a,
		const struct trails *b)
{
	struct thread *threads_a = threads_of(a), *threads_b = threads_of(b);
	int err = 0;

	*count = 0;
	*pairs = calloc(a->path_count + b->path_count + 1, sizeof(**pairs));
	if (!threads_a || !threads_b || !*pairs) {
		err = -ENOMEM;
		goto out;
	}
	pair_up(threads_a, a->path_count, threads_b, b->path_count);
	for (size_t i = 0; i < a->path_count; i++) {
		(*pairs)[*count].of[0] = threads_a[i].path;
		(*pairs)[(*count)++].of[1] = threads_a[i].other ? threads_a[i].other->path : NULL;
	}
	for (size_t i = 0; i < b->path_count; i++)
		if (!threads_b[i].other)
			(*pairs)[(*count)++].of[1] = threads_b[i].path;
out:
	free(threads_a);
	free(threads_b);
	return err;
}
