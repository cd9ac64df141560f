/* SPDX-License-Identifier: MIT */
#include "history/export_samples.h"

#include "base/array.h"

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
};

/* ---- stacks, one a line ---- */

/* A name without what divides names and lines. */
static void put_name(struct out *out, const char *name)
{
	for (; *name; name++)
		out_char(out, *name == ';' ? ':' : (unsigned char)*name < ' ' ? '_' : *name);
}

static void put_one(struct out *out, const struct stacks_one *one)
{
	char text[FUNCTION_TEXT_BYTES];

	put_name(out, one->function ? samples_text(one->function, text, sizeof(text)) : one->name);
	if (one->function && samples_is_kernel(one->function))
		out_literal(out, "_[k]");
}

static void put_stack(struct out *out, const struct stacks *stacks, uint32_t stack, uint64_t weight,
		      uint32_t *numbers)
{
	size_t depth = 0;

	for (; stack != STACKS_ROOT; stack = stacks->all[stack].outer)
		numbers[depth++] = stack;
	while (depth--) {
		put_one(out, &stacks->all[numbers[depth]]);
		out_char(out, depth ? ';' : ' ');
	}
	out_u64(out, weight);
	out_char(out, '\n');
}

int export_samples_folded(struct export_samples *export)
{
	struct samples *samples = export->samples;
	int err = samples_read(samples, NULL, NULL);
	uint64_t *weights = calloc(samples->stacks.count + 1, sizeof(*weights));
	uint32_t *numbers = calloc(SAMPLES_DEPTH_MAX + 3, sizeof(*numbers));

	if (!err && (!weights || !numbers))
		err = -ENOMEM;
	for (size_t i = 0; !err && i < samples->sum_count; i++)
		weights[samples->sums[i].stack] += export->is_counted ? samples->sums[i].count
								      : samples->sums[i].weight;
	for (uint32_t i = 1; !err && i < samples->stacks.count; i++)
		if (weights[i])
			put_stack(export->out, &samples->stacks, i, weights[i], numbers);
	free(weights);
	free(numbers);
	return err;
}

/* ---- speedscope ---- */

static int take(const struct samples_one *one, void *data)
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

static void put_json(struct out *out, const char *text)
{
	out_char(out, '"');
	out_json(out, text, strlen(text));
	out_char(out, '"');
}

/* The numbers of a stack's functions in the file's list, the outermost first. */
static void put_numbers(struct out *out, const struct stacks *stacks, uint32_t stack,
			const uint32_t *frames, uint32_t *numbers)
{
	size_t depth = 0;

	for (; stacks->all[stack].function; stack = stacks->all[stack].outer)
		numbers[depth++] = frames[stack];
	out_char(out, '[');
	while (depth--) {
		out_u64(out, numbers[depth]);
		if (depth)
			out_char(out, ',');
	}
	out_char(out, ']');
}

/* A thread's profile, from run `first` on. Returns where the next thread's begin. */
static size_t put_thread(struct runs *runs, size_t first, const uint32_t *frames, uint32_t *numbers)
{
	struct samples *samples = runs->export->samples;
	const struct samples_thread *thread = &samples->threads[runs->all[first].thread];
	const struct samples_event *event = &samples->events[0];
	struct out *out = runs->export->out;
	uint64_t weight = 0;
	size_t end = first;
	char name[600];

	snprintf(name, sizeof(name), "%.200s %u/%u, %.200s", thread->comm, thread->pid, thread->tid,
		 event->name);
	out_literal(out, "{\"type\":\"sampled\",\"name\":");
	put_json(out, name);
	out_literal(out, ",\"unit\":");
	put_json(out, event->is_time && !runs->export->is_counted ? "nanoseconds" : "none");
	out_literal(out, ",\"startValue\":0,\"samples\":[");
	for (; end < runs->count && runs->all[end].thread == runs->all[first].thread; end++) {
		if (end > first)
			out_char(out, ',');
		put_numbers(out, &samples->stacks, runs->all[end].stack, frames, numbers);
	}
	out_literal(out, "],\"weights\":[");
	for (size_t i = first; i < end; i++) {
		if (i > first)
			out_char(out, ',');
		out_u64(out, runs->all[i].weight);
		weight += runs->all[i].weight;
	}
	out_literal(out, "],\"endValue\":");
	out_u64(out, weight);
	out_char(out, '}');
	return end;
}

static void put_frame(struct out *out, const struct function *function, int follows)
{
	char text[FUNCTION_TEXT_BYTES];
	struct image_line line = { 0 };

	if (function->start && function->module)
		image_module_line(function->module, function->start, &line);
	if (follows)
		out_char(out, ',');
	out_literal(out, "\n{\"name\":");
	put_json(out, samples_text(function, text, sizeof(text)));
	if (line.source || function->module) {
		out_literal(out, ",\"file\":");
		put_json(out, line.source ? line.source : function->module->path);
	}
	if (line.source) {
		out_literal(out, ",\"line\":");
		out_u64(out, line.line);
	}
	out_char(out, '}');
}

/* Put the list of functions; frames[] of a stack is where its innermost one is. */
static void put_frames(struct export_samples *export, uint32_t *frames, uint32_t *of_number,
		       const size_t *firsts)
{
	const struct stacks *stacks = &export->samples->stacks;
	uint32_t count = 0;

	out_literal(export->out, "\"shared\":{\"frames\":[");
	for (uint32_t i = 1; i < stacks->count; i++) {
		const struct stacks_one *one = &stacks->all[i];
		uint32_t *place = one->function
					  ? &of_number[firsts[one->process] + one->function->number]
					  : NULL;

		if (!place)
			continue;
		if (!*place) {
			put_frame(export->out, one->function, count != 0);
			*place = ++count;
		}
		frames[i] = *place - 1;
	}
	out_literal(export->out, "]}");
}

static void put_file(struct runs *runs, const uint32_t *frames, uint32_t *numbers)
{
	struct out *out = runs->export->out;

	out_literal(out, ",\n\"profiles\":[");
	for (size_t i = 0; i < runs->count;) {
		if (i)
			out_literal(out, ",\n");
		i = put_thread(runs, i, frames, numbers);
	}
	out_literal(out, "]}\n");
}

/* Where the functions of each process begin among those of all. */
static int firsts_find(const struct samples *samples, size_t **firsts, size_t *count)
{
	uint32_t processes = samples->reader->meta.process_count;

	*count = 0;
	*firsts = calloc(processes + 2ul, sizeof(**firsts));
	if (!*firsts)
		return -ENOMEM;
	for (uint32_t i = 0; i <= processes; i++) {
		(*firsts)[i] = *count;
		*count += samples_function_count(samples, i);
	}
	return 0;
}

int export_samples_speedscope(struct export_samples *export)
{
	struct samples *samples = export->samples;
	struct runs runs = { .export = export };
	uint32_t *frames = NULL, *of_number = NULL, *numbers = NULL;
	size_t *firsts = NULL, count = 0;
	int err = samples_read(samples, take, &runs);

	if (!err)
		err = firsts_find(samples, &firsts, &count);
	if (!err) {
		frames = calloc(samples->stacks.count, sizeof(*frames));
		of_number = calloc(count + 1, sizeof(*of_number));
		numbers = calloc(SAMPLES_DEPTH_MAX + 3, sizeof(*numbers));
		err = frames && of_number && numbers ? 0 : -ENOMEM;
	}
	if (!err) {
		if (runs.count)
			qsort(runs.all, runs.count, sizeof(*runs.all), by_thread);
		out_literal(export->out,
			    "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
			    "\"exporter\":\"waymark@" WAYMARK_VERSION "\",\"name\":");
		put_json(export->out, export->name);
		out_literal(export->out, ",\"activeProfileIndex\":0,\n");
		put_frames(export, frames, of_number, firsts);
		put_file(&runs, frames, numbers);
	}
	free(runs.all);
	free(runs.last);
	free(frames);
	free(of_number);
	free(numbers);
	free(firsts);
	return err;
}
