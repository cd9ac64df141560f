/* SPDX-License-Identifier: MIT */
/*
 * waymark trail --calls: who called whom, as it went. A call that made no others is one line, and
 * runs of the same are one line together; what made others has a line at its end, too.
 */
#include "cli/pulse.h"
#include "cli/trail.h"
#include "cli/trail_words.h"
#include "read/history/calls.h"

#include <errno.h>
#include <string.h>

#define BLOCK_WIDTH 10
#define TIME_WIDTH 16
#define INDENT 2
#define INDENT_MAX 200 /* frames deeper than this are printed there */

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
	int has_head;	/* a thread was shown before */
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

static void put_text(struct out *out, const char *text)
{
	out_escaped(out, text, strlen(text));
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
	put_text(of->out, line.source);
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
	put_text(out, function_text(frame->function, text, sizeof(text)));
	if (frame->function->name && frame->function->module) {
		out_literal(out, " [");
		put_text(out, frame->function->module->name);
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
		put_text(of->out, function_text(frame->function, text, sizeof(text)));
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

static void put_head(struct calls_show *of)
{
	if (of->show->options.json) {
		words_thread_put(&of->show->rows, &of->show->view, of->path);
		return;
	}
	if (of->has_head)
		out_char(of->out, '\n');
	of->has_head = 1;
	words_thread(of->out, &of->show->view, of->path);
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

	trail_range_wanted(of->show, of->path, &range);
	more = count_skipped(of, &range, functions, &skipped);
	if (!more)
		more = walk_begin(of, &range, functions);
	put_head(of);
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

int trail_calls(struct trail_show *show)
{
	struct calls_show of = { .show = show,
				 .out = show->out,
				 .begin_ns = show->view.begin_ns,
				 .depth = show->options.depth ? show->options.depth : UINT32_MAX };
	int err = 0;

	for (size_t i = 0; i < show->view.trails.path_count && !err; i++) {
		struct functions functions;

		of.path = &show->view.trails.paths[i];
		if (!trail_is_wanted(show, of.path))
			continue;
		of.image = trail_view_image(&show->view, of.path);
		if (!of.image)
			return -ENOMEM;
		err = functions_open(&functions, of.image);
		if (!err)
			err = show_thread(&of, &functions);
		functions_close(&functions);
	}
	return err;
}
