/* SPDX-License-Identifier: MIT */
/* waymark diff, for people. */
#include "cli/diff.h"

#include "base/quantity.h"
#include "read/history/callers.h"

#include <string.h>

#define CALLERS_MAX 12

static void put(struct out *out, const char *text)
{
	out_text(out, text, strlen(text));
}

static void put_count(struct out *out, uint64_t count, const char *what)
{
	char text[32];

	put(out, quantity_show_count(count, text, sizeof(text)));
	out_char(out, ' ');
	put(out, what);
	if (count != 1)
		out_char(out, 's');
}

/* 0xADDRESS FUNCTION+0xN (FILE:LINE) */
static void put_place(struct diff *diff, const struct diff_thread *thread,
		      const struct diff_address *at)
{
	uint64_t address = at->address;
	const struct image_place *place;
	struct out *out = diff->out;
	struct diff_place found;

	diff_place(diff, thread, at, &found);
	place = found.place;
	out_hex(out, address);
	out_char(out, ' ');
	if (place && place->function) {
		out_escaped(out, place->function, strlen(place->function));
		out_char(out, '+');
		out_hex(out, address - place->start);
	} else if (place && place->module) {
		out_escaped(out, place->module->name, strlen(place->module->name));
		out_char(out, '+');
		out_hex(out, address - place->module->base);
	} else {
		out_literal(out, "[unknown]");
	}
	if (found.line.source) {
		out_literal(out, " (");
		out_escaped(out, found.line.source, strlen(found.line.source));
		out_char(out, ':');
		out_u64(out, found.line.line);
		out_char(out, ')');
	}
}

static void put_side(struct diff *diff, const struct diff_thread *thread, int side)
{
	struct out *out = diff->out;
	struct diff_address address;
	char text[160];
	int has_place = diff_next(thread, side, &address, text, sizeof(text));

	out_literal(out, "  ");
	out_char(out, side ? 'B' : 'A');
	out_char(out, ' ');
	put(out, text);
	if (has_place) {
		out_char(out, ' ');
		put_place(diff, thread, &address);
	}
	out_char(out, '\n');
}

static void put_callers(struct diff *diff, const struct diff_thread *thread)
{
	struct caller callers[CALLERS_MAX];
	struct out *out = diff->out;
	size_t count = callers_find(thread->divergence.at[0], callers, CALLERS_MAX);

	if (count)
		out_literal(out, "\ncalled from (A)\n");
	for (size_t i = 0; i < count; i++) {
		out_literal(out, "  ");
		put_place(diff, thread,
			  &(struct diff_address){ 0, callers[i].at, callers[i].table });
		if (callers[i].signal) {
			out_literal(out, ", interrupted by signal ");
			out_i64(out, callers[i].signal);
		}
		out_char(out, '\n');
	}
}

static void put_item(struct diff *diff, const struct diff_thread *thread, int side,
		     const struct trail_item *item)
{
	struct diff_thread here = *thread;
	struct diff_address address;
	char text[160];

	out_literal(diff->out, "  ");
	if (item->block) {
		put_place(diff, thread,
			  &(struct diff_address){ side, item->block->start, item->table });
	} else {
		trail_previous(&here.divergence.at[side], &(struct trail_item){ 0 });
		diff_next(&here, side, &address, text, sizeof(text));
		out_literal(diff->out, "-- it ");
		put(diff->out, text);
	}
	out_char(diff->out, '\n');
}

/* The items of a side before the divergence, or behind it. */
static void put_items(struct diff *diff, const struct diff_thread *thread, int side, int is_before)
{
	struct diff_thread here = *thread;
	struct trail_cursor *cursor = &here.divergence.at[side];
	struct trail_item item;
	uint64_t count = 0;

	if (is_before) {
		while (count < diff->options.last && trail_previous(cursor, &item))
			count++;
		if (here.divergence.from[side])
			count++; /* of the block there the first part is the same */
	} else {
		count = diff->options.last;
	}
	here.divergence.from[side] = 0;
	for (uint64_t i = 0; i < count && trail_next(cursor, &item); i++)
		put_item(diff, &here, side, &item);
}

static void put_lines(struct diff *diff, const struct diff_thread *thread)
{
	struct out *out = diff->out;

	if (!diff->options.last)
		return;
	out_literal(out, "\nbefore it, both (addresses are A's)\n");
	put_items(diff, thread, 0, 1);
	out_literal(out, "\nA then\n");
	put_items(diff, thread, 0, 0);
	out_literal(out, "\nB then\n");
	put_items(diff, thread, 1, 0);
}

static void put_thread_name(struct out *out, const struct trail_path *path)
{
	out_escaped(out, path->stream->comm, strlen(path->stream->comm));
	out_char(out, '-');
	out_u64(out, path->stream->tid);
}

static void put_unsure(struct diff *diff, const struct diff_thread *thread)
{
	const struct divergence *divergence = &thread->divergence;
	struct out *out = diff->out;

	if (divergence->is_unsure) {
		out_literal(out, "  unsure: blocks were lost or not recorded from A's block ");
		out_u64(out, divergence->unsure_at[0]);
		out_literal(out, ", B's block ");
		out_u64(out, divergence->unsure_at[1]);
		out_literal(out, " on; what follows was compared where both did the same again\n");
	}
	if (divergence->kind == DIVERGENCE_NONE && divergence->is_over[0] != divergence->is_over[1])
		put(out, divergence->is_over[0] ? "  A's recording was over then, B's was not\n"
						: "  B's recording was over then, A's was not\n");
}

static void put_harmless(struct diff *diff, const struct diff_thread *thread)
{
	const struct divergence *divergence = &thread->divergence;
	struct out *out = diff->out;
	char text[512];

	if (!divergence->harmless_total)
		return;
	put(out, thread->is_different ? "\nharmless before that: " : "\nharmless: ");
	put_count(out, divergence->harmless_total, "difference");
	out_char(out, '\n');
	for (size_t i = 0; i < divergence->harmless_count; i++) {
		const struct divergence_harmless *harmless = &divergence->harmless[i];

		out_literal(out, "  ");
		out_u64(out, harmless->count);
		out_literal(out, "  ");
		diff_harmless(harmless, text, sizeof(text));
		out_escaped(out, text, strlen(text));
		if (harmless->blocks[0] || harmless->blocks[1]) {
			out_literal(out, " (blocks: A ");
			out_u64(out, harmless->blocks[0]);
			out_literal(out, ", B ");
			out_u64(out, harmless->blocks[1]);
			out_char(out, ')');
		}
		out_char(out, '\n');
	}
}

/* The line that every pair of threads has. */
static void put_summary(struct diff *diff, const struct diff_thread *thread)
{
	const struct trail_path *const *paths = thread->pair.of;
	struct out *out = diff->out;

	out_literal(out, "thread ");
	put_thread_name(out, paths[0] ? paths[0] : paths[1]);
	if (!paths[0] || !paths[1]) {
		put(out, paths[0] ? " is in A only\n" : " is in B only\n");
		return;
	}
	out_literal(out, " (");
	put_thread_name(out, paths[1]);
	out_literal(out, " in B): the same path for ");
	put_count(out, thread->divergence.blocks, "block");
	out_literal(out, " (");
	put_count(out, thread->divergence.instructions, "instruction");
	put(out, thread->is_different ? "), then they part\n" : ")\n");
	put_unsure(diff, thread);
}

static void put_parting(struct diff *diff, const struct diff_thread *thread)
{
	const struct divergence *divergence = &thread->divergence;
	struct out *out = diff->out;

	if (divergence->parted[0]) {
		out_literal(out, "  after     ");
		put_place(diff, thread,
			  &(struct diff_address){ 0, divergence->parted[0],
						  divergence->parted_in[0] });
		out_char(out, '\n');
	}
	put_side(diff, thread, 0);
	put_side(diff, thread, 1);
	put_callers(diff, thread);
	put_lines(diff, thread);
}

static void put_modules(struct diff *diff)
{
	const struct alike_module *module;
	struct out *out = diff->out;

	for (uint32_t i = 1; (module = alike_module(diff->alike, i)); i++) {
		if (!module->build_id[0] || !module->build_id[1] ||
		    !strcmp(module->build_id[0], module->build_id[1]))
			continue;
		out_escaped(out, module->name, strlen(module->name));
		out_literal(out, " is not the same file in both: build id ");
		out_escaped(out, module->build_id[0], strlen(module->build_id[0]));
		out_literal(out, " in A, ");
		out_escaped(out, module->build_id[1], strlen(module->build_id[1]));
		out_literal(out, " in B\n");
	}
}

void diff_show(struct diff *diff)
{
	int is_different = 0;

	put_modules(diff);
	for (size_t i = 0; i < diff->thread_count; i++) {
		struct diff_thread *thread = &diff->threads[i];

		if (i && diff->thread_count > 1 && thread->is_different)
			out_char(diff->out, '\n');
		put_summary(diff, thread);
		if (!thread->pair.of[0] || !thread->pair.of[1]) {
			is_different = 1;
			continue;
		}
		if (thread->is_different)
			put_parting(diff, thread);
		put_harmless(diff, thread);
		is_different |= thread->is_different;
	}
	if (diff->thread_count && !is_different)
		put(diff->out, "\ntrails have no data: on the same path the values may differ, and "
			       "the output\n");
}
