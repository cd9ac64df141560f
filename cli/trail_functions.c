/* SPDX-License-Identifier: MIT */
/*
 * waymark trail --functions: how much of what ran each function was, itself and with what it
 * called.
 */
#include "base/array.h"
#include "base/name_match.h"
#include "cli/pulse.h"
#include "cli/trail.h"
#include "cli/trail_words.h"
#include "read/history/calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

	trail_range_wanted(of->show, path, &range);
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

		if (!trail_is_wanted(of->show, path))
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

static void put_share(struct functions_show *of, uint64_t part)
{
	char text[32];
	int bytes = snprintf(text, sizeof(text), "  %5.1f%%", share(of, part));

	out_short(of->show->out, text, (size_t)bytes);
}

static void put_row(struct functions_show *of, const struct sum *row)
{
	const struct function *function = row->function;
	struct out *out = of->show->out;
	char text[FUNCTION_TEXT_BYTES];
	struct image_line line = function_line(function);
	const char *name;

	put_share(of, row->instructions);
	put_share(of, row->total);
	words_number(out, row->calls, 12);
	words_number(out, row->blocks, 14);
	words_number(out, row->instructions, 14);
	out_literal(out, "  ");
	name = function_text(function, text, sizeof(text));
	out_escaped(out, name, strlen(name));
	if (function->name && function->module) {
		out_literal(out, " [");
		out_escaped(out, function->module->name, strlen(function->module->name));
		out_char(out, ']');
	}
	if (line.source) {
		out_char(out, ' ');
		name = name_last_part(line.source);
		out_escaped(out, name, strlen(name));
		out_char(out, ':');
		out_u64(out, line.line);
	}
	out_char(out, '\n');
}

static void json_row(struct functions_show *of, const struct sum *row)
{
	const struct function *function = row->function;
	struct json json = { .out = of->show->out };
	struct image_line line = function_line(function);
	char text[FUNCTION_TEXT_BYTES];

	json_open(&json, NULL, '{');
	json_string(&json, "type", "function");
	json_string(&json, "function", function_text(function, text, sizeof(text)));
	json_words(&json, "linkage", function->linkage);
	json_words(&json, "module", function->module ? function->module->path : NULL);
	words_json_address(&json, "address", function->start);
	words_json_line(&json, &line);
	json_number(&json, "calls", row->calls);
	json_number(&json, "blocks", row->blocks);
	json_number(&json, "instructions", row->instructions);
	json_number(&json, "total_instructions", row->total);
	json_decimal(&json, "self_percent", share(of, row->instructions), 3);
	json_decimal(&json, "total_percent", share(of, row->total), 3);
	json_close(&json, '}');
	out_char(of->show->out, '\n');
}

static void put_more(struct functions_show *of)
{
	struct out *out = of->show->out;
	uint64_t last = of->show->options.last;

	if (of->show->options.json || of->count <= last)
		return;
	out_literal(out, "-- ");
	out_u64(out, of->count - last);
	out_literal(out, " more ran less: -n 0 shows all\n");
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
	if (!err && !show->options.json)
		out_literal(show->out,
			    "   self   total       calls        blocks  instructions  function\n");
	for (size_t i = 0; i < of.count && !err && i < show->options.last; i++)
		if (show->options.json)
			json_row(&of, &of.rows[i]);
		else
			put_row(&of, &of.rows[i]);
	if (!err)
		put_more(&of);
	for (uint32_t i = 0; of.processes && i < processes; i++) {
		functions_close(&of.processes[i].functions);
		free(of.processes[i].all);
	}
	free(of.processes);
	free(of.rows);
	return err;
}
