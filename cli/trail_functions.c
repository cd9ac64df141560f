/* SPDX-License-Identifier: MIT */
/*
 * waymark trail --functions: how much of what ran each function was, itself and with what it
 * called.
 */
#include "base/array.h"
#include "cli/pulse.h"
#include "cli/trail.h"
#include "cli/trail_words.h"
#include "read/history/calls.h"
#include "read/rows/render.h"

#include <errno.h>
#include <stdlib.h>

/* A function in all threads. */
struct sum {
	const struct function *function;
	uint64_t calls, blocks, instructions, total;
	/* in the thread that is being walked */
	uint64_t active, since; /* frames of it that are there; when the outermost came */
};

/* One process's functions. */
struct sums {
	struct functions functions;
	struct sum *all; /* by the function's number */
	size_t count, room;
};

struct functions_show {
	struct trail_show *show;
	struct sums *processes; /* by number of the process */
	struct sum *rows;
	size_t count;
	uint64_t instructions; /* of all */
};

static struct sum *sum_of(struct sums *sums, const struct function *function)
{
	if (array_grow(&sums->all, &sums->room, (size_t)function->number + 1, sizeof(*sums->all)))
		return NULL;
	for (; sums->count <= function->number; sums->count++)
		sums->all[sums->count] = (struct sum){ .function = function };
	return &sums->all[function->number];
}

/* A frame comes, or is there where the range begins. */
static int frame_came(struct sums *sums, const struct calls *calls, const struct call_frame *frame,
		      int is_new)
{
	struct sum *sum = sum_of(sums, frame->function);

	if (!sum)
		return -ENOMEM;
	sum->function = frame->function;
	sum->calls += is_new && frame->how != CALL_FOUND;
	/* what ran before does not count: it is added again when the frame goes */
	sum->blocks -= frame->blocks;
	sum->instructions -= frame->instructions;
	if (!sum->active++)
		sum->since = calls->instructions;
	return 0;
}

static void frame_went(struct sums *sums, const struct calls *calls, const struct call_frame *frame)
{
	struct sum *sum = &sums->all[frame->function->number];

	sum->blocks += frame->blocks;
	sum->instructions += frame->instructions;
	if (!--sum->active)
		sum->total += calls->instructions - sum->since;
}

static int walk(struct functions_show *of, struct sums *sums, const struct trail_path *path)
{
	struct call_change change;
	struct trail_range range;
	struct calls calls;
	uint64_t before;
	int more;

	trail_bounds_range(&of->show->options.wanted.bounds, &of->show->view, path, &range);
	calls_init(&calls, path, &sums->functions, 0);
	more = calls_range(&calls, &range);
	before = calls.instructions;
	for (uint32_t i = 0; i < calls.depth && !more; i++)
		more = frame_came(sums, &calls, &calls.frames[i], 0);
	while (!more && (more = calls_next(&calls, &change)) > 0) {
		more = 0;
		pulse_beat("counting", calls.blocks, path->blocks);
		if (change.kind == CALL_ENTER)
			more = frame_came(sums, &calls, change.frame, 1);
		else
			frame_went(sums, &calls, change.frame);
	}
	pulse_end();
	of->instructions += calls.instructions - before;
	calls_release(&calls);
	return more;
}

static int walk_all(struct functions_show *of)
{
	struct trail_view *view = &of->show->view;

	for (size_t i = 0; i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		struct sums *sums = &of->processes[path->stream->process];
		struct image *image;
		int err = 0;

		if (!trail_wants(&of->show->options.wanted, path->stream))
			continue;
		image = trail_view_image(view, path);
		if (!image)
			return -ENOMEM;
		if (!sums->functions.image)
			err = functions_open(&sums->functions, image);
		if (!err)
			err = walk(of, sums, path);
		if (err)
			return err;
	}
	return 0;
}

/* ---- rows ---- */

static int by_name(const void *one, const void *other)
{
	return function_compare(((const struct sum *)one)->function,
				((const struct sum *)other)->function);
}

static int by_share(const void *one, const void *other)
{
	const struct sum *a = one, *b = other;

	if (a->instructions != b->instructions)
		return a->instructions < b->instructions ? 1 : -1;
	if (a->total != b->total)
		return a->total < b->total ? 1 : -1;
	return by_name(one, other);
}

static int rows_gather(struct functions_show *of)
{
	uint32_t processes = of->show->view.reader->meta.process_count;
	size_t room = 0, kept = 0;

	for (uint32_t i = 0; i < processes; i++)
		room += of->processes[i].count;
	of->rows = calloc(room + 1, sizeof(*of->rows));
	if (!of->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < processes; i++)
		for (size_t j = 0; j < of->processes[i].count; j++)
			if ((of->processes[i].all[j].blocks || of->processes[i].all[j].total) &&
			    trail_shows_module(of->show, of->processes[i].all[j].function->module))
				of->rows[of->count++] = of->processes[i].all[j];
	qsort(of->rows, of->count, sizeof(*of->rows), by_name);
	for (size_t i = 0; i < of->count; i++) {
		struct sum *last = kept ? &of->rows[kept - 1] : NULL;

		if (last && !by_name(last, &of->rows[i])) {
			last->calls += of->rows[i].calls;
			last->blocks += of->rows[i].blocks;
			last->instructions += of->rows[i].instructions;
			last->total += of->rows[i].total;
		} else {
			of->rows[kept++] = of->rows[i];
		}
	}
	of->count = kept;
	qsort(of->rows, of->count, sizeof(*of->rows), by_share);
	return 0;
}

static double share(const struct functions_show *of, uint64_t part)
{
	return of->instructions ? 100.0 * (double)part / (double)of->instructions : 0;
}

static const struct row_column function_columns[] = {
	{ "self", ROW_DOUBLE, ROW_SHARE, 0, "of all instructions ran in it" },
	{ "total", ROW_DOUBLE, ROW_SHARE, 0, "ran in it and in what it called" },
	{ "calls", ROW_U64, ROW_COUNT, 0, "of it" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that ran in it" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "likewise" },
	{ "total_instructions", ROW_U64, ROW_COUNT, ROW_DETAIL, "with what it called" },
	{ "function", ROW_TEXT, ROW_PLAIN, 0, "its name" },
	{ "linkage", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "its name to the linker" },
	{ "module", ROW_TEXT, ROW_PLAIN, 0, "the file that it is from" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "where it begins" },
	{ "source", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "likewise: the file" },
	{ "line", ROW_U64, ROW_PLAIN, ROW_DETAIL, "and line of source" },
	{ "place", ROW_TEXT, ROW_PLAIN, ROW_FOR_TEXT, "the two" },
};
static ROW_TABLE(trail_function_table, "function",
		 "How much of a trail each function was (waymark trail --functions).",
		 function_columns);

static void put_row(struct functions_show *of, struct rows *rows, const struct sum *row)
{
	const struct function *function = row->function;
	const struct image_module *module = function->module;
	struct image_line line = function_line(function);
	char text[FUNCTION_TEXT_BYTES], place[WORDS_LINE_BYTES];

	ROWS_PUT(rows, function_columns, row_double(share(of, row->instructions)),
		 row_double(share(of, row->total)), row_u64(row->calls), row_u64(row->blocks),
		 row_u64(row->instructions), row_u64(row->total),
		 row_text(function_text(function, text, sizeof(text))), row_text(function->linkage),
		 row_text(!module		      ? NULL
			  : rows->format == ROWS_TEXT ? module->name
						      : module->path),
		 row_address(function->start), row_text(line.source),
		 line.source ? row_u64(line.line) : row_null(),
		 row_text(words_line_text(&line, place)));
}

static void rows_show(struct functions_show *of)
{
	const struct rows_layout layout = { .last = of->show->options.last,
					    .more = "ran less; -n 0 shows all" };
	struct rows rows;

	rows_begin(&rows, of->show->out, of->show->options.json ? ROWS_JSON_LINES : ROWS_TEXT);
	rows_open(&rows, &trail_function_table, &layout);
	for (size_t i = 0; i < of->count; i++)
		put_row(of, &rows, &of->rows[i]);
	rows_close(&rows);
	(void)rows_end(&rows); /* the error stays in the out */
}

int trail_functions(struct trail_show *show)
{
	struct functions_show of = { .show = show };
	uint32_t processes = show->view.reader->meta.process_count;
	int err;

	of.processes = calloc((size_t)processes + 1, sizeof(*of.processes));
	err = of.processes ? walk_all(&of) : -ENOMEM;
	if (!err)
		err = rows_gather(&of);
	if (!err)
		rows_show(&of);
	for (uint32_t i = 0; of.processes && i < processes; i++) {
		functions_close(&of.processes[i].functions);
		free(of.processes[i].all);
	}
	free(of.processes);
	free(of.rows);
	return err;
}
