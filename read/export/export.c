/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"

#include "base/array.h"
#include "base/out.h"
#include "read/history/stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- speedscope: the list of functions, and what is around the profiles ---- */

struct export_numbers {
	uint32_t *of; /* by the function's number: its place + 1 */
	size_t room;
};

/* The functions in the file, by their place in its list. */
struct export_frames {
	const struct function **all;
	size_t count, room;
	struct export_numbers *by_process;
	size_t process_count;
};

/* A JSON string. */
static void export_put_json(struct out *out, const char *text)
{
	out_char(out, '"');
	out_json(out, text, strlen(text));
	out_char(out, '"');
}

/* 0 or -ENOMEM; release in either case. */
static int export_frames_init(struct export_frames *frames, size_t process_count)
{
	*frames = (struct export_frames){ .process_count = process_count };
	frames->by_process = calloc(process_count + 1, sizeof(*frames->by_process));
	return frames->by_process ? 0 : -ENOMEM;
}

static void export_frames_release(struct export_frames *frames)
{
	for (size_t i = 0; frames->by_process && i < frames->process_count; i++)
		free(frames->by_process[i].of);
	free(frames->by_process);
	free(frames->all);
}

/* The place of a process's function. 0 or -ENOMEM. */
static int export_frames_place(struct export_frames *frames, size_t process,
			       const struct function *function, uint32_t *place)
{
	struct export_numbers *numbers = &frames->by_process[process];

	if (array_grow_zeroed(&numbers->of, &numbers->room, (size_t)function->number + 1,
			      sizeof(*numbers->of)))
		return -ENOMEM;
	if (!numbers->of[function->number]) {
		if (array_grow(&frames->all, &frames->room, frames->count + 1,
			       sizeof(*frames->all)))
			return -ENOMEM;
		frames->all[frames->count++] = function;
		numbers->of[function->number] = (uint32_t)frames->count;
	}
	*place = numbers->of[function->number] - 1;
	return 0;
}

/* The text before the profiles, and the text behind them. */
static void export_speedscope_begin(struct out *out, const char *name)
{
	out_literal(
		out,
		"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":"
		"\"waymark@" WAYMARK_VERSION "\",\"name\":");
	export_put_json(out, name);
	out_literal(out, ",\"activeProfileIndex\":0,\n\"profiles\":[");
}

/* The list comes last, when it is complete: the order of a JSON object's members is free. */
static void export_speedscope_end(struct out *out, const struct export_frames *frames)
{
	char text[FUNCTION_TEXT_BYTES];

	out_literal(out, "],\n\"shared\":{\"frames\":[");
	for (size_t i = 0; i < frames->count; i++) {
		const struct function *function = frames->all[i];
		struct image_line line = function_line(function);

		if (i)
			out_char(out, ',');
		out_literal(out, "\n{\"name\":");
		export_put_json(out, function_text(function, text, sizeof(text)));
		if (line.source || function->module) {
			out_literal(out, ",\"file\":");
			export_put_json(out, line.source ? line.source : function->module->path);
		}
		if (line.source) {
			out_literal(out, ",\"line\":");
			out_u64(out, line.line);
		}
		out_char(out, '}');
	}
	out_literal(out, "]}}\n");
}

/* ---- stacks, folded ---- */

/*
 * Of deeper stacks only the outermost frames are written: lines grow by depth, and so does their
 * number.
 */
#define DEPTH_MAX 1000u

struct folded {
	struct export *export;
	struct stacks stacks;
};

/* ---- a thread ---- */

struct fold {
	struct folded *folded;
	uint32_t at;   /* the stack as it is */
	uint64_t past; /* frames deeper than are kept */
	uint32_t depth;
};

static uint64_t weight_of(const struct folded *folded, const struct call_frame *frame)
{
	return folded->export->weight == EXPORT_BLOCKS ? frame->blocks : frame->instructions;
}

static int frame_came(struct fold *fold, const struct call_frame *frame)
{
	struct folded *folded = fold->folded;

	if (fold->depth == DEPTH_MAX)
		fold->past++;
	else if (stacks_of(&folded->stacks, fold->at, frame->function, 0, NULL, &fold->at))
		return -ENOMEM;
	else
		fold->depth++;
	/* what ran before the range does not count: it is added again when the frame goes */
	folded->stacks.all[fold->at].weight -= weight_of(folded, frame);
	return 0;
}

static void frame_went(struct fold *fold, const struct call_frame *frame)
{
	struct stacks_one *stack = &fold->folded->stacks.all[fold->at];

	stack->weight += weight_of(fold->folded, frame);
	if (fold->past) {
		fold->past--;
		return;
	}
	fold->at = stack->outer;
	fold->depth--;
}

static int fold_thread(struct folded *folded, const struct export_thread *thread,
		       struct calls *calls)
{
	struct fold fold = { .folded = folded };
	/* threads of one name are one */
	const char *comm = stacks_name(&folded->stacks, thread->path->stream->comm);
	struct call_change change;
	int more = comm ? stacks_of(&folded->stacks, STACKS_ROOT, NULL, 0, comm, &fold.at)
			: -ENOMEM;

	if (!more)
		more = calls_range(calls, &thread->range);
	for (uint32_t i = 0; i < calls->depth && !more; i++)
		more = frame_came(&fold, &calls->frames[i]);
	while (!more && (more = calls_next(calls, &change)) > 0) {
		more = 0;
		export_beat(folded->export, calls->blocks);
		if (change.kind == CALL_ENTER)
			more = frame_came(&fold, change.frame);
		else
			frame_went(&fold, change.frame);
	}
	return more;
}

/* ---- lines ---- */

/* A name without what divides names and lines, or changes a terminal. */
static void put_name(struct out *out, const char *name)
{
	size_t left = strlen(name), bytes;
	int is_unfit;

	for (; left; name += bytes, left -= bytes) {
		bytes = out_character(name, left, &is_unfit);
		if (is_unfit || *name == ';')
			out_char(out, is_unfit ? '_' : ':');
		else
			out_short(out, name, bytes);
	}
}

static void put_one(struct out *out, const struct stacks_one *one, int marks_kernel)
{
	char text[FUNCTION_TEXT_BYTES];

	put_name(out, one->function ? function_text(one->function, text, sizeof(text)) : one->name);
	if (one->function && marks_kernel && function_is_kernel(one->function))
		out_literal(out, "_[k]");
}

/* Each stack that has a weight, one a line. With `marks_kernel`, the kernel's end in "_[k]". */
static int export_stacks(struct out *out, const struct stacks *stacks, int marks_kernel)
{
	uint32_t *numbers = calloc(stacks->depth + 1ul, sizeof(*numbers));

	if (!numbers)
		return -ENOMEM;
	for (uint32_t i = 1; i < stacks->count; i++) {
		uint32_t depth = 0;

		if (!stacks->all[i].weight)
			continue;
		for (uint32_t at = i; at != STACKS_ROOT; at = stacks->all[at].outer)
			numbers[depth++] = at;
		while (depth--) {
			put_one(out, &stacks->all[numbers[depth]], marks_kernel);
			out_char(out, depth ? ';' : ' ');
		}
		out_u64(out, stacks->all[i].weight);
		out_char(out, '\n');
	}
	free(numbers);
	return 0;
}

int export_folded(struct export *export)
{
	struct folded folded = { .export = export };
	int err = stacks_init(&folded.stacks);

	for (size_t i = 0; i < export->thread_count && !err; i++) {
		const struct export_thread *thread = &export->threads[i];
		struct calls calls;

		calls_init(&calls, thread->path, &export->processes[thread->process].functions, 0);
		err = fold_thread(&folded, thread, &calls);
		export->done += calls.blocks;
		calls_release(&calls);
	}
	if (!err)
		err = export_stacks(export->out, &folded.stacks, 0);
	stacks_release(&folded.stacks);
	return err;
}

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
	struct run *last;

	if (array_grow_zeroed(&runs->last, &runs->last_room, sum->thread + 1ul,
			      sizeof(*runs->last)) ||
	    array_grow(&runs->all, &runs->room, runs->count + 1, sizeof(*runs->all)))
		return -ENOMEM;
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

struct scope {
	struct export *export;
	struct out *out;
	struct export_frames frames;
};

/* ---- a trail's threads ---- */

static int put_event(struct scope *scope, size_t process, char type, const struct call_frame *frame,
		     uint64_t at, int *follows)
{
	struct out *out = scope->out;
	uint32_t place;

	if (export_frames_place(&scope->frames, process, frame->function, &place))
		return -ENOMEM;
	if (*follows)
		out_char(out, ',');
	*follows = 1;
	out_literal(out, "\n{\"type\":\"");
	out_char(out, type);
	out_literal(out, "\",\"frame\":");
	out_u64(out, place);
	out_literal(out, ",\"at\":");
	out_u64(out, at);
	out_char(out, '}');
	return 0;
}

static uint64_t clock_of(const struct export *export, const struct calls *calls)
{
	return export->weight == EXPORT_BLOCKS ? calls->blocks : calls->instructions;
}

static int put_events(struct scope *scope, const struct export_thread *thread, struct calls *calls,
		      uint64_t *last)
{
	struct call_change change;
	int follows = 0, more = calls_range(calls, &thread->range);
	uint64_t begin = clock_of(scope->export, calls);

	*last = 0;
	for (uint32_t i = 0; i < calls->depth && !more; i++)
		more = put_event(scope, thread->process, 'O', &calls->frames[i], 0, &follows);
	while (!more && !scope->out->error && (more = calls_next(calls, &change)) > 0) {
		export_beat(scope->export, calls->blocks);
		more = put_event(scope, thread->process, change.kind == CALL_ENTER ? 'O' : 'C',
				 change.frame, clock_of(scope->export, calls) - begin, &follows);
	}
	*last = clock_of(scope->export, calls) - begin;
	return more;
}

static int speedscope_put_thread(struct scope *scope, const struct export_thread *thread)
{
	const struct trace_stream *stream = thread->path->stream;
	struct export *export = scope->export;
	struct out *out = scope->out;
	struct calls calls;
	char name[64];
	uint64_t last;
	int err;

	snprintf(name, sizeof(name), "%s %u/%u, %s", stream->comm, stream->pid, stream->tid,
		 export->weight == EXPORT_BLOCKS ? "blocks" : "instructions");
	out_literal(out, "{\"type\":\"evented\",\"name\":");
	export_put_json(out, name);
	out_literal(out, ",\"unit\":\"none\",\"startValue\":0,\"events\":[");
	calls_init(&calls, thread->path, &export->processes[thread->process].functions, 0);
	err = put_events(scope, thread, &calls, &last);
	export->done += calls.blocks;
	calls_release(&calls);
	out_literal(out, "],\"endValue\":");
	out_u64(out, last);
	out_char(out, '}');
	return err;
}

int export_speedscope(struct export *export)
{
	struct scope scope = { .export = export, .out = export->out };
	int err = export_frames_init(&scope.frames, export->process_count);

	export_speedscope_begin(scope.out, export->name);
	for (size_t i = 0; i < export->thread_count && !err; i++) {
		if (i)
			out_literal(scope.out, ",\n");
		err = speedscope_put_thread(&scope, &export->threads[i]);
	}
	export_speedscope_end(scope.out, &scope.frames);
	export_frames_release(&scope.frames);
	return err;
}
