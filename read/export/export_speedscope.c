/* SPDX-License-Identifier: MIT */
#include "read/export/export.h"

#include "base/array.h"
#include "read/export/export_own.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct export_numbers {
	uint32_t *of; /* by the function's number: its place + 1 */
	size_t count, room;
};

struct scope {
	struct export *export;
	struct out *out;
	struct export_frames frames;
};

void export_put_json(struct out *out, const char *text)
{
	out_char(out, '"');
	out_json(out, text, strlen(text));
	out_char(out, '"');
}

/* ---- the list of functions ---- */

int export_frames_init(struct export_frames *frames, size_t process_count)
{
	*frames = (struct export_frames){ .process_count = process_count };
	frames->by_process = calloc(process_count + 1, sizeof(*frames->by_process));
	return frames->by_process ? 0 : -ENOMEM;
}

void export_frames_release(struct export_frames *frames)
{
	for (size_t i = 0; frames->by_process && i < frames->process_count; i++)
		free(frames->by_process[i].of);
	free(frames->by_process);
	free(frames->all);
}

int export_frames_place(struct export_frames *frames, size_t process,
			const struct function *function, uint32_t *place)
{
	struct export_numbers *numbers = &frames->by_process[process];

	if (array_grow(&numbers->of, &numbers->room, (size_t)function->number + 1,
		       sizeof(*numbers->of)))
		return -ENOMEM;
	for (; numbers->count <= function->number; numbers->count++)
		numbers->of[numbers->count] = 0;
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

void export_speedscope_begin(struct out *out, const char *name)
{
	out_literal(
		out,
		"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":"
		"\"waymark@" WAYMARK_VERSION "\",\"name\":");
	export_put_json(out, name);
	out_literal(out, ",\"activeProfileIndex\":0,\n\"profiles\":[");
}

/* The list comes last, when it is complete: the order of a JSON object's members is free. */
void export_speedscope_end(struct out *out, const struct export_frames *frames)
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

static int put_thread(struct scope *scope, const struct export_thread *thread)
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
		err = put_thread(&scope, &export->threads[i]);
	}
	export_speedscope_end(scope.out, &scope.frames);
	export_frames_release(&scope.frames);
	return err;
}
