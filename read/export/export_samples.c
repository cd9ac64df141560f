/* SPDX-License-Identifier: MIT */
#include "read/export/export_samples.h"

#include "base/array.h"
#include "read/export/export_own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stacks of one thread one behind the other; the same one again makes the last longer. */
struct run {
	uint32_t thread, stack;
	size_t number; /* in order of time */
	uint64_t weight;
};

struct runs {
	struct export_samples *export;
	struct run *all;
	size_t count, room;
	size_t *last; /* of each thread: its last one, + 1 */
	size_t last_room;
	struct export_frames frames;
	uint32_t *stacks; /* room for the deepest one and those that it is made of */
};

int export_samples_folded(struct export_samples *export)
{
	struct samples *samples = export->samples;
	int err = samples_read(samples, NULL, NULL);

	for (size_t i = 0; i < samples->sum_count; i++)
		samples->stacks.all[samples->sums[i].stack]
			.weight += export->is_counted ? samples->sums[i].count
						      : samples->sums[i].weight;
	return err ? err : export_stacks(export->out, &samples->stacks, 1);
}

/* ---- speedscope ---- */

static int sample_take(const struct samples_one *one, void *data)
{
	struct runs *runs = data;
	const struct samples_sum *sum = &runs->export->samples->sums[one->sum];
	uint64_t weight = runs->export->is_counted ? 1 : one->weight;
	size_t before = runs->last_room;
	struct run *last;

	if (array_grow(&runs->last, &runs->last_room, sum->thread + 1ul, sizeof(*runs->last)) ||
	    array_grow(&runs->all, &runs->room, runs->count + 1, sizeof(*runs->all)))
		return -ENOMEM;
	memset(runs->last + before, 0, (runs->last_room - before) * sizeof(*runs->last));
	last = runs->last[sum->thread] ? &runs->all[runs->last[sum->thread] - 1] : NULL;
	if (last && last->stack == sum->stack) {
		last->weight += weight;
		return 0;
	}
	runs->all[runs->count] = (struct run){ sum->thread, sum->stack, runs->count, weight };
	runs->last[sum->thread] = ++runs->count;
	return 0;
}

static int by_thread(const void *one, const void *other)
{
	const struct run *a = one, *b = other;

	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return a->number < b->number ? -1 : 1;
}

/* The places of a stack's functions in the file's list, the outermost first. 0 or -ENOMEM. */
static int put_stack(struct runs *runs, uint32_t stack)
{
	const struct stacks *stacks = &runs->export->samples->stacks;
	struct out *out = runs->export->out;
	size_t depth = 0;
	uint32_t place;

	for (; stacks->all[stack].function; stack = stacks->all[stack].outer)
		runs->stacks[depth++] = stack;
	out_char(out, '[');
	while (depth--) {
		const struct stacks_one *one = &stacks->all[runs->stacks[depth]];

		if (export_frames_place(&runs->frames, one->process, one->function, &place))
			return -ENOMEM;
		out_u64(out, place);
		if (depth)
			out_char(out, ',');
	}
	out_char(out, ']');
	return 0;
}

/* A thread's profile, from run *first on, which becomes where the next thread's begin. */
static int put_thread(struct runs *runs, size_t *first)
{
	struct samples *samples = runs->export->samples;
	const struct samples_thread *thread = &samples->threads[runs->all[*first].thread];
	const struct samples_event *event = &samples->events[0];
	struct out *out = runs->export->out;
	uint64_t weight = 0;
	size_t end = *first;
	char name[600];
	int err = 0;

	snprintf(name, sizeof(name), "%.200s %u/%u, %.200s", thread->comm, thread->pid, thread->tid,
		 event->name);
	out_literal(out, "{\"type\":\"sampled\",\"name\":");
	export_put_json(out, name);
	out_literal(out, ",\"unit\":");
	export_put_json(out, event->is_time && !runs->export->is_counted ? "nanoseconds" : "none");
	out_literal(out, ",\"startValue\":0,\"samples\":[");
	for (; end < runs->count && runs->all[end].thread == runs->all[*first].thread && !err;
	     end++) {
		if (end > *first)
			out_char(out, ',');
		err = put_stack(runs, runs->all[end].stack);
	}
	out_literal(out, "],\"weights\":[");
	for (size_t i = *first; i < end; i++) {
		if (i > *first)
			out_char(out, ',');
		out_u64(out, runs->all[i].weight);
		weight += runs->all[i].weight;
	}
	out_literal(out, "],\"endValue\":");
	out_u64(out, weight);
	out_char(out, '}');
	*first = end;
	return err;
}

int export_samples_speedscope(struct export_samples *export)
{
	struct samples *samples = export->samples;
	struct runs runs = { .export = export };
	int err = samples_read(samples, sample_take, &runs);

	if (!err)
		err = export_frames_init(&runs.frames, samples->reader->meta.process_count + 1ul);
	runs.stacks = calloc(samples->stacks.depth + 1ul, sizeof(*runs.stacks));
	if (!err && !runs.stacks)
		err = -ENOMEM;
	if (!err) {
		if (runs.count)
			qsort(runs.all, runs.count, sizeof(*runs.all), by_thread);
		export_speedscope_begin(export->out, export->name);
		for (size_t i = 0; i < runs.count && !err;) {
			if (i)
				out_literal(export->out, ",\n");
			err = put_thread(&runs, &i);
		}
		export_speedscope_end(export->out, &runs.frames);
	}
	free(runs.all);
	free(runs.last);
	free(runs.stacks);
	export_frames_release(&runs.frames);
	return err;
}
