/* SPDX-License-Identifier: MIT */
/*
 * waymark trail --calls: who called whom, as it went. A call that made no others is one line, and
 * runs of the same are one line together; what made others has a line at its end, too.
 */
#include "base/name_match.h"
#include "cli/pulse.h"
#include "cli/trail.h"
#include "cli/trail_words.h"
#include "read/history/calls.h"
#include "read/history/spot.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_WIDTH 10
#define TIME_WIDTH 16
#define INDENT 2
#define INDENT_MAX 200	 /* frames deeper than this are printed there */
#define BACKTRACE_MAX 32 /* frames */

/* Calls with the same words, one after the other. */
struct leaf {
	struct call_frame frame; /* the first's */
	enum call_end end;
	uint32_t depth;
	uint64_t count; /* 0: none */
	uint64_t blocks;
};

struct calls_show {
	struct trail_show *show;
	struct out *out;
	const struct trail_path *path;
	struct image *image;
	struct calls calls;
	uint64_t begin_ns;
	uint32_t depth; /* frames further in are not shown */
	/* a call whose line waits for whether it calls others */
	int is_waiting;
	struct call_frame waiting;
	uint32_t waiting_depth;
	struct leaf leaf; /* and calls whose line waits for more of them */
};

/* ---- lines ---- */

static void put_indent(struct out *out, uint32_t depth)
{
	for (uint32_t i = 0; i < depth && i < INDENT_MAX; i++)
		out_short(out, "        ", INDENT);
}

/* Its first block, and when that was at the latest. */
static void put_columns(struct calls_show *of, uint64_t index, uint64_t ticks)
{
	words_number(of->out, index, BLOCK_WIDTH);
	words_time(of->out, trail_ns(of->show->view.reader, of->path, ticks), of->begin_ns,
		   TIME_WIDTH);
	out_literal(of->out, "  ");
}

static void put_left(struct calls_show *of, const struct call_frame *frame, uint32_t depth)
{
	put_columns(of, frame->index, frame->ticks);
	put_indent(of->out, depth);
}

static void put_empty_left(struct calls_show *of, uint32_t depth)
{
	words_padded(of->out, "", BLOCK_WIDTH + TIME_WIDTH + 2);
	put_indent(of->out, depth);
}

/* The image of the time of the call: another program may have been at its addresses since. */
static struct image *image_of(const struct calls_show *of, const struct call_frame *frame)
{
	return trail_item_image(of->image, &(struct trail_item){ .table = frame->table });
}

static void put_site(struct calls_show *of, const struct call_frame *frame)
{
	struct image_line line;

	if (!frame->from || frame->how == CALL_SIGNALLED)
		return;
	image_line(image_of(of, frame), frame->from, &line);
	if (!line.source)
		return;
	out_literal(of->out, " from ");
	words_put(of->out, line.source);
	out_char(of->out, ':');
	out_u64(of->out, line.line);
}

static void put_call(struct calls_show *of, const struct call_frame *frame, uint32_t depth)
{
	struct out *out = of->out;
	char text[FUNCTION_TEXT_BYTES];

	put_left(of, frame, depth);
	if (frame->how == CALL_JUMPED)
		out_literal(out, "-> ");
	if (frame->how == CALL_FOUND)
		out_literal(out, "? ");
	if (frame->how == CALL_SIGNALLED) {
		if (frame->signal) {
			out_literal(out, "signal ");
			out_u64(out, frame->signal);
		} else {
			out_literal(out, "an interrupt");
		}
		out_literal(out, ": ");
	}
	words_put(out, function_text(frame->function, text, sizeof(text)));
	if (frame->function->name && frame->function->module) {
		out_literal(out, " [");
		words_put(out, frame->function->module->name);
		out_char(out, ']');
	}
	put_site(of, frame);
}

static void put_blocks(struct out *out, uint64_t blocks)
{
	out_literal(out, "  ");
	out_u64(out, blocks);
	if (blocks == 1)
		out_literal(out, " block");
	else
		out_literal(out, " blocks");
}

/* How it went, where it did not return. */
static void put_end(struct out *out, enum call_end end)
{
	static const char *const words[] = { "",       ", jumps on",	    ", passed by",
					     ", lost", ", another program", ", not over" };

	out_text(out, words[end], strlen(words[end]));
}

static void leaf_flush(struct calls_show *of)
{
	struct leaf *leaf = &of->leaf;

	if (!leaf->count)
		return;
	put_call(of, &leaf->frame, leaf->depth);
	put_blocks(of->out, leaf->blocks);
	put_end(of->out, leaf->end);
	if (leaf->count > 1) {
		out_literal(of->out, "  x ");
		out_u64(of->out, leaf->count);
	}
	out_char(of->out, '\n');
	leaf->count = 0;
}

/* The call that waits makes others. */
static void waiting_flush(struct calls_show *of)
{
	leaf_flush(of);
	if (!of->is_waiting)
		return;
	of->is_waiting = 0;
	put_call(of, &of->waiting, of->waiting_depth);
	out_literal(of->out, " {\n");
}

/* ---- changes ---- */

static int is_hidden(const struct calls_show *of, const struct call_change *change)
{
	return change->depth >= of->depth || change->frame->function->flags & FUNCTION_IS_STUB;
}

static void text_enter(struct calls_show *of, const struct call_frame *frame, uint32_t depth)
{
	/* siblings may still be folded */
	if (of->is_waiting)
		waiting_flush(of);
	else if (of->leaf.count && of->leaf.depth != depth)
		leaf_flush(of);
	of->is_waiting = 1;
	of->waiting = *frame;
	of->waiting_depth = depth;
}

static void text_leave(struct calls_show *of, const struct call_change *change)
{
	const struct call_frame *frame = change->frame;
	struct leaf *leaf = &of->leaf;
	char text[FUNCTION_TEXT_BYTES];

	if (!of->is_waiting) {
		leaf_flush(of);
		put_empty_left(of, change->depth);
		out_literal(of->out, "} ");
		words_put(of->out, function_text(frame->function, text, sizeof(text)));
		put_blocks(of->out, frame->total_blocks);
		put_end(of->out, change->end);
		out_char(of->out, '\n');
		return;
	}
	of->is_waiting = 0;
	if (leaf->count &&
	    (leaf->depth != change->depth || leaf->frame.function != frame->function ||
	     leaf->frame.from != frame->from || leaf->frame.how != frame->how ||
	     leaf->end != change->end))
		leaf_flush(of);
	if (!leaf->count)
		*leaf = (struct leaf){ .frame = *frame,
				       .end = change->end,
				       .depth = change->depth };
	leaf->count++;
	leaf->blocks += frame->total_blocks;
}

static void text_event(struct calls_show *of, const struct call_change *change)
{
	const struct trail_between *between = change->item->between;
	struct image *image = trail_item_image(of->image, change->item);

	waiting_flush(of);
	put_columns(of, change->item->index, change->item->ticks);
	put_indent(of->out, change->depth + 1 < of->depth ? change->depth + 1 : of->depth);
	out_literal(of->out, "-- ");
	words_event(of->out, image, between);
	if (between->has_at && between->event == TRAIL_END)
		words_at(of->out, image, between->at, of->show->options.is_verbose);
	out_char(of->out, '\n');
}

#define CALL_COLUMNS                                                                               \
	WORDS_THREAD_COLUMNS, { "depth", ROW_U64, ROW_PLAIN, 0, "of the nesting" },                \
		{ "function", ROW_TEXT, ROW_PLAIN, 0, "that is called" },                          \
		{ "linkage", ROW_TEXT, ROW_PLAIN, 0, "its name to the linker" },                   \
		{ "module", ROW_TEXT, ROW_PLAIN, 0, "the file that it is from" },                  \
	{                                                                                          \
		"sure", ROW_BOOL, ROW_PLAIN, 0, "no blocks were lost since it began"               \
	}

static const struct row_column enter_columns[] = {
	CALL_COLUMNS,
	{ "how", ROW_TEXT, ROW_PLAIN, 0, "call, jump, signal, found" },
	{ "number", ROW_U64, ROW_PLAIN, 0, "of the signal" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "that was called" },
	{ "block", ROW_U64, ROW_PLAIN, 0, "its first, by the number in the trail" },
	{ "earliest", ROW_S64, ROW_SINCE, 0, "when it came, at the earliest" },
	{ "latest", ROW_S64, ROW_SINCE, 0, "and at the latest" },
	WORDS_PLACE_COLUMNS("from_"),
};
static ROW_TABLE(enter_table, "enter", "The begin of a call (waymark trail --calls --json).",
		 enter_columns);

static const struct row_column leave_columns[] = {
	CALL_COLUMNS,
	{ "end", ROW_TEXT, ROW_PLAIN, 0, "returned, replaced, unwound, lost, executed, open" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that ran in it" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "likewise" },
	{ "total_blocks", ROW_U64, ROW_COUNT, 0, "with what it called" },
	{ "total_instructions", ROW_U64, ROW_COUNT, 0, "likewise" },
};
static ROW_TABLE(leave_table, "leave", "The end of a call (waymark trail --calls --json).",
		 leave_columns);

static struct row_value since(const struct calls_show *of, uint64_t ticks)
{
	return row_s64((int64_t)(trail_ns(of->show->view.reader, of->path, ticks) - of->begin_ns));
}

static void enter_row(struct calls_show *of, struct row_value *at, const struct call_frame *frame)
{
	static const char *const hows[] = { "call", "jump", "signal", "found" };

	*at++ = row_text(hows[frame->how]);
	*at++ = frame->how == CALL_SIGNALLED ? row_u64(frame->signal) : row_null();
	*at++ = row_address(frame->address);
	*at++ = row_u64(frame->index);
	*at++ = frame->earliest_ticks ? since(of, frame->earliest_ticks) : row_null();
	*at++ = since(of, frame->ticks);
	if (frame->from)
		words_place_row(at, image_of(of, frame), frame->from);
}

static void leave_row(struct row_value *at, const struct call_change *change)
{
	static const char *const ends[] = { "returned", "replaced", "unwound",
					    "lost",	"executed", "open" };
	const struct call_frame *frame = change->frame;

	*at++ = row_text(ends[change->end]);
	*at++ = row_u64(frame->blocks);
	*at++ = row_u64(frame->instructions);
	*at++ = row_u64(frame->total_blocks);
	*at = row_u64(frame->total_instructions);
}

static void put_row(struct calls_show *of, const struct call_change *change)
{
	const struct function *function = change->frame->function;
	struct row_value row[sizeof(enter_columns) / sizeof(*enter_columns)] = { 0 };
	struct row_value *at = row + WORDS_THREAD_VALUES;
	char text[FUNCTION_TEXT_BYTES];

	words_thread_row(row, of->path);
	*at++ = row_u64(change->depth);
	*at++ = row_text(function_text(function, text, sizeof(text)));
	*at++ = row_words(function->linkage);
	*at++ = row_words(function->module ? function->module->path : NULL);
	*at++ = row_bool(!calls_is_unsure(&of->calls, change->depth));
	if (change->kind == CALL_ENTER)
		enter_row(of, at, change->frame);
	else
		leave_row(at, change);
	rows_record(&of->show->rows, change->kind == CALL_ENTER ? &enter_table : &leave_table, row);
}

static int is_told(const struct trail_between *between)
{
	return between->event == TRAIL_LOST || trail_is_gap(between) ||
	       between->event == TRAIL_FORK || between->event == TRAIL_EXEC ||
	       between->event == TRAIL_END;
}

static void put_change(struct calls_show *of, const struct call_change *change)
{
	int is_json = of->show->options.json;

	if (change->kind == CALL_BLOCK)
		return;
	if (change->kind == CALL_EVENT) {
		if (!is_json && is_told(change->item->between))
			text_event(of, change);
		return;
	}
	if (is_hidden(of, change))
		return;
	if (is_json)
		put_row(of, change);
	else if (change->kind == CALL_ENTER)
		text_enter(of, change->frame, change->depth);
	else
		text_leave(of, change);
}

/* ---- a thread ---- */

static int walk_begin(struct calls_show *of, const struct trail_range *range,
		      struct functions *functions)
{
	calls_init(&of->calls, of->path, functions, 1);
	return calls_range(&of->calls, range);
}

/* How many calls of a range are too many to be shown. */
static int count_skipped(struct calls_show *of, const struct trail_range *range,
			 struct functions *functions, uint64_t *skipped)
{
	struct call_change change;
	uint64_t calls = 0;
	int more;

	*skipped = 0;
	if (of->show->options.last == UINT64_MAX)
		return 0;
	more = walk_begin(of, range, functions);
	of->calls.has_items = 0;
	while (!more && (more = calls_next(&of->calls, &change)) > 0) {
		pulse_beat("looking for the last calls", of->calls.blocks, of->path->blocks);
		calls += change.kind == CALL_ENTER && !is_hidden(of, &change);
		more = 0;
	}
	pulse_end();
	calls_release(&of->calls);
	if (calls > of->show->options.last)
		*skipped = calls - of->show->options.last;
	return more;
}

/* The frames that are there where what is shown begins. */
static void put_context(struct calls_show *of, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		struct call_change change = { .kind = CALL_ENTER,
					      .depth = i,
					      .frame = &of->calls.frames[i] };

		put_change(of, &change);
	}
}

static void put_beyond(struct calls_show *of)
{
	if (!of->calls.beyond_ever || of->show->options.json)
		return;
	out_literal(of->out, "-- ");
	out_u64(of->out, of->calls.beyond_ever);
	out_literal(of->out, " calls were too deep to be shown\n");
}

static int show_thread(struct calls_show *of, struct functions *functions)
{
	struct call_change change;
	struct trail_range range;
	uint64_t skipped;
	int more;

	trail_bounds_range(&of->show->options.wanted.bounds, &of->show->view, of->path, &range);
	more = count_skipped(of, &range, functions, &skipped);
	if (!more)
		more = walk_begin(of, &range, functions);
	if (!more && !skipped)
		put_context(of, of->calls.depth);
	while (!more && !of->out->error && (more = calls_next(&of->calls, &change)) > 0) {
		int is_call = change.kind == CALL_ENTER && !is_hidden(of, &change);

		more = 0;
		if (!skipped)
			put_change(of, &change);
		else if (is_call && !--skipped)
			put_context(of, change.depth + 1);
	}
	waiting_flush(of);
	put_beyond(of);
	calls_release(&of->calls);
	return more;
}

static int put_path(struct trail_show *show, const struct trail_path *path, struct image *image)
{
	struct calls_show of = { .show = show,
				 .out = show->out,
				 .path = path,
				 .image = image,
				 .begin_ns = show->view.begin_ns,
				 .depth = show->options.depth ? show->options.depth : UINT32_MAX };
	struct functions functions;
	int err = functions_open(&functions, image);

	if (!err)
		err = show_thread(&of, &functions);
	functions_close(&functions);
	return err;
}

int trail_calls(struct trail_show *show)
{
	return trail_each_path(show, put_path);
}

/* ---- the backtrace at the end of a trail: the calls that have not returned ---- */

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
	words_put(of->out, name);
}

static void put_source(struct out *out, const char *source, unsigned int line)
{
	out_literal(out, " (");
	words_put(out, name_last_part(source));
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

		words_put(of->out, in_line->function ? in_line->function : "?");
		if (in_line->source)
			put_source(of->out, in_line->source, in_line->line);
		out_literal(of->out, " in ");
	}
	put_function(of, frame);
	if (own && own->source) {
		put_source(of->out, own->source, own->line);
	} else if (function->name && function->module) {
		out_literal(of->out, " [");
		words_put(of->out, function->module->name);
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
	words_padded(of->out, text, 3);
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
	words_put(of->out, words_signal(frame->signal, text));
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
		if (shown++ == BACKTRACE_MAX) {
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
	trail_bounds_range(&show->options.wanted.bounds, &show->view, path, &range);
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
