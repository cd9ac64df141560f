/* SPDX-License-Identifier: MIT */
/*
 * The backtrace at the end of a thread's trail: the calls that have not returned, as the trail
 * nests them.
 */
#include "base/name_match.h"
#include "cli/trail.h"
#include "cli/trail_crash.h"
#include "cli/trail_words.h"
#include "read/history/calls.h"
#include "read/history/spot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FRAMES_MAX 32
#define NUMBER_WIDTH 3

struct backtrace {
	struct out *out;
	struct image *image;
	const struct trail_path *path;
	struct calls calls;
	uint32_t number; /* of the next frame */
	struct crash crash;
	uint32_t unwound; /* frames of the crash that are behind the last one shown */
	int error;
};

static void put_text(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
}

/*
 * Where the thread was last: where it was killed, else the last instruction of its last block. 0:
 * unknown.
 */
static uint64_t last_place(const struct trail_path *path)
{
	struct trail_cursor cursor = { .path = path };
	struct trail_item item;

	trail_seek_end(&cursor);
	while (trail_previous(&cursor, &item)) {
		if (item.block)
			return item.block->start + item.block->last;
		if (item.between->has_at)
			return item.between->at;
	}
	return 0;
}

/* Where a frame is: the innermost at `last`, the others at the call that they made. 0: unknown. */
static uint64_t place_of(const struct backtrace *of, uint32_t depth, uint64_t last)
{
	const struct call_frame *called = &of->calls.frames[depth + 1];

	if (depth + 1 == of->calls.depth)
		return last;
	if (called->how == CALL_CALLED || called->how == CALL_SIGNALLED)
		return called->from;
	/* a tail call took the frame's place: its call ends right before where it returns to */
	return called->back ? called->back - 1 : 0;
}

static void put_function(struct backtrace *of, const struct call_frame *frame)
{
	const struct function *function = frame->function;
	char text[FUNCTION_TEXT_BYTES];
	const char *name = text;

	/* a call to no code, through a null pointer too */
	if (!function->name && !function->module && frame->how != CALL_FOUND)
		snprintf(text, sizeof(text), "0x%" PRIx64, frame->address);
	else
		name = function_text(function, text, sizeof(text));
	put_text(of->out, name);
}

static void put_source(struct out *out, const char *source, unsigned int line)
{
	out_literal(out, " (");
	put_text(out, name_last_part(source));
	out_char(out, ':');
	out_u64(out, line);
	out_char(out, ')');
}

/* The inlined functions at a place, as far as they have a line, then the frame's own. */
static void put_place(struct backtrace *of, const struct call_frame *frame, const struct spot *spot)
{
	const struct function *function = frame->function;
	const struct spot_frame *own = spot->count ? &spot->frames[spot->count - 1] : NULL;

	for (size_t i = 0; i + 1 < spot->count; i++) {
		const struct spot_frame *in_line = &spot->frames[i];

		put_text(of->out, in_line->function ? in_line->function : "?");
		if (in_line->source)
			put_source(of->out, in_line->source, in_line->line);
		out_literal(of->out, " in ");
	}
	put_function(of, frame);
	if (own && own->source) {
		put_source(of->out, own->source, own->line);
	} else if (function->name && function->module) {
		out_literal(of->out, " [");
		put_text(of->out, function->module->name);
		out_char(of->out, ']');
	}
}

/*
 * The values of its parameters. The calls are nested by the trail, and the crash's frames are
 * unwound from the stack: the frame is the next of these that is in the same function.
 */
static void put_arguments(struct backtrace *of, const struct call_frame *frame)
{
	for (uint32_t i = of->unwound; i < of->crash.count; i++) {
		const struct code_frame *crashed = &of->crash.frames[i];

		if (functions_at(of->calls.functions, frame->table,
				 code_frame_at(&crashed->registers)) != frame->function)
			continue;
		trail_crash_arguments(of->out, crashed, "  ");
		of->unwound = i + 1;
		return;
	}
}

/* `count` calls from one place, the innermost of them at `depth`. */
static void put_frame(struct backtrace *of, uint32_t depth, uint64_t at, uint32_t count)
{
	const struct call_frame *frame = &of->calls.frames[depth];
	const struct trail_item item = { .table = frame->table };
	struct spot spot = { 0 };
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu32, of->number);
	of->number += count;
	out_literal(of->out, "  #");
	words_padded(of->out, text, NUMBER_WIDTH);
	out_char(of->out, ' ');
	if (at && spot_find(&spot, trail_item_image(of->image, &item), at)) {
		spot_release(&spot);
		of->error = -ENOMEM;
	}
	put_place(of, frame, &spot);
	spot_release(&spot);
	if (count > 1) {
		out_literal(of->out, "  x ");
		out_u64(of->out, count);
		of->unwound += count;
	} else {
		put_arguments(of, frame);
	}
	if (calls_is_unsure(&of->calls, depth))
		out_literal(of->out, "  (a guess: blocks were lost since)");
	out_char(of->out, '\n');
	if (frame->how != CALL_SIGNALLED)
		return;
	out_literal(of->out, "  the handler of ");
	put_text(of->out, words_signal(frame->signal, text));
	out_literal(of->out, ", which interrupted\n");
}

static int is_main(const struct function *function)
{
	return function->name && !strcmp(function->name, "main");
}

static int is_same(const struct call_frame *frame, const struct call_frame *outer)
{
	return frame->function == outer->function && frame->how == CALL_CALLED &&
	       outer->how == CALL_CALLED;
}

static void put_frames(struct backtrace *of)
{
	uint64_t last = last_place(of->path), at;
	uint32_t i = of->calls.depth, shown = 0, count;

	while (i--) {
		const struct call_frame *frame = &of->calls.frames[i];

		if (frame->function->flags & FUNCTION_IS_STUB)
			continue;
		if (shown++ == FRAMES_MAX) {
			out_literal(of->out, "  and more: waymark trail --calls shows them\n");
			return;
		}
		at = place_of(of, i, last);
		for (count = 1; i && is_same(frame, frame - count) && place_of(of, i - 1, 0) == at;
		     i--)
			count++;
		put_frame(of, i + count - 1, at, count);
		if (is_main(frame->function))
			return;
	}
	if (of->path->parts[0].between.event == TRAIL_LOST && !of->path->parts[0].count)
		out_literal(of->out, "  what called it ran before the blocks that were kept\n");
}

int trail_backtrace(struct trail_show *show, const struct trail_path *path)
{
	static struct backtrace of;
	struct functions functions;
	struct trail_range range;
	int err;

	of = (struct backtrace){ .out = show->out,
				 .image = trail_view_image(&show->view, path),
				 .path = path };
	if (!of.image)
		return -ENOMEM;
	crash_init(&of.crash, path->values, of.image);
	/* an empty stretch at the end: all before it is walked, and its frames are there */
	trail_range_wanted(show, path, &range);
	range.cursor.part = range.end_part;
	range.cursor.id = range.end_id;
	err = functions_open(&functions, of.image);
	if (!err) {
		calls_init(&of.calls, path, &functions, 0);
		err = calls_range(&of.calls, &range);
		if (!err)
			put_frames(&of);
		if (!err)
			err = of.error;
		calls_release(&of.calls);
	}
	functions_close(&functions);
	return err;
}
