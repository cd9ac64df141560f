/* SPDX-License-Identifier: MIT */
/* What waymark diff prints: the pairs of threads, the way to where they part, what was harmless. */
#include "cli/diff.h"

#include "base/quantity.h"
#include "read/history/callers.h"
#include "read/rows/render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CALLERS_MAX 32

static const struct row_column diff_columns[] = {
	{ "a", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the folder of the first trace" },
	{ "b", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "of the second" },
	{ "data_compared", ROW_BOOL, ROW_PLAIN, ROW_DETAIL, "false: trails have none" },
};
static ROW_TABLE(diff_table, "diff", "What waymark diff --json begins with.", diff_columns);

static const struct row_column pair_columns[] = {
	{ "pair", ROW_U64, ROW_PLAIN, 0, "its number, from 1" },
	{ "pid_a", ROW_U64, ROW_PLAIN, 0, "of A's thread; null: it is in B alone" },
	{ "tid_a", ROW_U64, ROW_PLAIN, 0, "likewise" },
	{ "comm_a", ROW_TEXT, ROW_PLAIN, 0, "likewise" },
	{ "pid_b", ROW_U64, ROW_PLAIN, 0, "of B's thread; null: it is in A alone" },
	{ "tid_b", ROW_U64, ROW_PLAIN, 0, "likewise" },
	{ "comm_b", ROW_TEXT, ROW_PLAIN, 0, "likewise" },
	{ "different", ROW_BOOL, ROW_PLAIN, 0, "they part, or one is missing" },
	{ "blocks", ROW_U64, ROW_COUNT, 0, "that are the same" },
	{ "instructions", ROW_U64, ROW_COUNT, 0, "in them" },
	{ "unsure", ROW_BOOL, ROW_PLAIN, 0, "blocks are missing in one" },
	{ "over_a", ROW_BOOL, ROW_PLAIN, 0, "A's recording ended there" },
	{ "over_b", ROW_BOOL, ROW_PLAIN, 0, "B's did" },
};
static ROW_TABLE(pair_table, "pair", "Two threads, compared.", pair_columns);

static const struct row_column step_columns[] = {
	{ "pair", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the pair's number" },
	{ "step", ROW_TEXT, ROW_PLAIN, 0, "after, A, B, called from (A), before, A then, B then" },
	{ "what", ROW_TEXT, ROW_PLAIN, 0, "happens there, where it is no block" },
	{ "address", ROW_ADDRESS, ROW_PLAIN, 0, "of the block; before it both: A's" },
	{ "place", ROW_TEXT, ROW_PLAIN, 0, "FUNCTION+OFFSET or MODULE+OFFSET" },
	{ "function", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "there" },
	{ "linkage", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the function's name for the linker" },
	{ "module", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the program or library" },
	{ "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },
	{ "line", ROW_U64, ROW_PLAIN, ROW_QUIET, "there" },
	{ "signal", ROW_S64, ROW_PLAIN, ROW_QUIET, "of a caller: it was interrupted by that" },
};
static ROW_TABLE(step_table, "step", "Where two threads part, and the steps before.", step_columns);

static const struct row_column harmless_columns[] = {
	{ "pair", ROW_U64, ROW_PLAIN, ROW_DETAIL, "the pair's number" },
	{ "count", ROW_U64, ROW_COUNT, 0, "how often" },
	{ "what", ROW_TEXT, ROW_PLAIN, 0, "differs" },
	{ "blocks_a", ROW_U64, ROW_COUNT, ROW_QUIET, "that A has in these places" },
	{ "blocks_b", ROW_U64, ROW_COUNT, ROW_QUIET, "that B has there" },
};
static ROW_TABLE(harmless_table, "harmless", "Differences that mean nothing.", harmless_columns);

struct shown {
	struct diff *diff;
	const struct diff_thread *thread;
	struct rows rows;
};

static uint64_t pair_number(const struct shown *shown)
{
	return (uint64_t)(shown->thread - shown->diff->threads) + 1;
}

/* ---- the way to where they part ---- */

/* `at` NULL: it is no place. */
static void put_step(struct shown *shown, const char *step, const char *what,
		     const struct diff_address *at, int signal)
{
	struct diff_place found = { 0 };
	const struct image_place *place;
	char text[512] = "";

	if (at)
		diff_place(shown->diff, shown->thread, at, &found);
	place = found.place;
	if (place && place->function)
		snprintf(text, sizeof(text), "%s+0x%" PRIx64, place->function,
			 at->address - place->start);
	else if (place && place->module)
		snprintf(text, sizeof(text), "%s+0x%" PRIx64, place->module->name,
			 at->address - place->module->base);
	ROWS_PUT(&shown->rows, step_columns, row_u64(pair_number(shown)), row_text(step),
		 row_text(what), at ? row_address(at->address) : row_null(), row_words(text),
		 row_text(place ? place->function : NULL), row_text(place ? place->linkage : NULL),
		 row_text(place && place->module ? place->module->path : NULL),
		 row_text(found.line.source), row_u64(found.line.source ? found.line.line : 0),
		 row_s64(signal));
}

static void put_side(struct shown *shown, int side)
{
	struct diff_address address;
	char text[160];
	int has_place = diff_next(shown->thread, side, &address, text, sizeof(text));

	put_step(shown, side ? "B" : "A", text, has_place ? &address : NULL, 0);
}

static void put_callers(struct shown *shown)
{
	struct caller callers[CALLERS_MAX];
	size_t count = callers_find(shown->thread->divergence.at[0], callers, CALLERS_MAX);

	for (size_t i = 0; i < count; i++)
		put_step(shown, "called from (A)", NULL,
			 &(struct diff_address){ 0, callers[i].at, callers[i].table },
			 callers[i].signal);
}

static void put_item(struct shown *shown, const char *step, const struct diff_thread *here,
		     int side, const struct trail_item *item)
{
	struct diff_thread before = *here;
	struct diff_address address;
	char text[160];

	if (item->block) {
		put_step(shown, step, NULL,
			 &(struct diff_address){ side, item->block->start, item->table }, 0);
		return;
	}
	trail_previous(&before.divergence.at[side], &(struct trail_item){ 0 });
	diff_next(&before, side, &address, text, sizeof(text));
	put_step(shown, step, text, NULL, 0);
}

/* The items of a side before the divergence, or behind it. */
static void put_items(struct shown *shown, const char *step, int side, int is_before)
{
	struct diff_thread here = *shown->thread;
	struct trail_cursor *cursor = &here.divergence.at[side];
	uint64_t last = shown->diff->options.last, count = is_before ? 0 : last;
	struct trail_item item;

	if (!last)
		return;
	while (is_before && count < last && trail_previous(cursor, &item))
		count++;
	if (is_before && here.divergence.from[side])
		count++; /* of the block there the first part is the same */
	here.divergence.from[side] = 0;
	for (uint64_t i = 0; i < count && trail_next(cursor, &item); i++)
		put_item(shown, step, &here, side, &item);
}

static void put_steps(struct shown *shown)
{
	const struct divergence *divergence = &shown->thread->divergence;

	if (divergence->kind == DIVERGENCE_NONE)
		return;
	if (divergence->parted[0])
		put_step(shown, "after", NULL,
			 &(struct diff_address){ 0, divergence->parted[0],
						 divergence->parted_in[0] },
			 0);
	put_side(shown, 0);
	put_side(shown, 1);
	put_callers(shown);
	put_items(shown, "before", 0, 1);
	put_items(shown, "A then", 0, 0);
	put_items(shown, "B then", 1, 0);
}

static void put_harmless(struct shown *shown)
{
	const struct divergence *divergence = &shown->thread->divergence;
	char text[512];

	for (size_t i = 0; i < divergence->harmless_count; i++) {
		const struct divergence_harmless *harmless = &divergence->harmless[i];

		diff_harmless(harmless, text, sizeof(text));
		ROWS_PUT(&shown->rows, harmless_columns, row_u64(pair_number(shown)),
			 row_u64(harmless->count), row_text(text), row_u64(harmless->blocks[0]),
			 row_u64(harmless->blocks[1]));
	}
}

/* ---- pairs ---- */

static void put_pair(struct shown *shown)
{
	const struct divergence *divergence = &shown->thread->divergence;
	struct row_value row[13] = { row_u64(pair_number(shown)) };

	for (int i = 0; i < 2; i++) {
		const struct trail_path *path = shown->thread->pair.of[i];

		row[1 + 3 * i] = path ? row_u64(path->stream->pid) : row_null();
		row[2 + 3 * i] = path ? row_u64(path->stream->tid) : row_null();
		row[3 + 3 * i] = row_text(path ? path->stream->comm : NULL);
		row[11 + i] = row_bool(divergence->is_over[i]);
	}
	row[7] = row_bool(shown->thread->is_different);
	row[8] = row_u64(divergence->blocks);
	row[9] = row_u64(divergence->instructions);
	row[10] = row_bool(divergence->is_unsure);
	rows_put(&shown->rows, row);
}

/* The lines that every pair of threads has in text. */
static void note_pair(struct shown *shown)
{
	const struct diff_thread *thread = shown->thread;
	const struct divergence *divergence = &thread->divergence;
	const struct trace_stream *a = thread->pair.of[0] ? thread->pair.of[0]->stream : NULL;
	const struct trace_stream *b = thread->pair.of[1] ? thread->pair.of[1]->stream : NULL;
	char blocks[32], instructions[32];

	if (!a || !b) {
		rows_note(&shown->rows, "thread %s-%u is in %c only", a ? a->comm : b->comm,
			  a ? a->tid : b->tid, a ? 'A' : 'B');
		return;
	}
	rows_note(&shown->rows,
		  "thread %s-%u (%s-%u in B): the same path for %s block%s (%s instruction%s)%s",
		  a->comm, a->tid, b->comm, b->tid,
		  quantity_show_count(divergence->blocks, blocks, sizeof(blocks)),
		  divergence->blocks == 1 ? "" : "s",
		  quantity_show_count(divergence->instructions, instructions, sizeof(instructions)),
		  divergence->instructions == 1 ? "" : "s",
		  thread->is_different ? ", then they part" : "");
	if (divergence->is_unsure)
		rows_note(&shown->rows,
			  "  unsure: blocks were lost or not recorded from A's block %" PRIu64
			  ", B's block %" PRIu64
			  " on; what follows was compared where both did the same again",
			  divergence->unsure_at[0], divergence->unsure_at[1]);
	if (divergence->kind == DIVERGENCE_NONE && divergence->is_over[0] != divergence->is_over[1])
		rows_note(&shown->rows, "  %c's recording was over then, %c's was not",
			  divergence->is_over[0] ? 'A' : 'B', divergence->is_over[0] ? 'B' : 'A');
}

static void note_modules(struct shown *shown)
{
	const struct alike_module *module;

	for (uint32_t i = 1; (module = alike_module(shown->diff->alike, i)); i++)
		if (module->build_id[0] && module->build_id[1] &&
		    strcmp(module->build_id[0], module->build_id[1]) != 0)
			rows_note(&shown->rows,
				  "%s is not the same file in both: build id %s in A, %s in B",
				  module->name, module->build_id[0], module->build_id[1]);
}

/* A table of what `put` puts for each pair; in text, for the pair that is shown. */
static void put_table(struct shown *shown, const struct row_table *table, const char *title,
		      void (*put)(struct shown *shown))
{
	const struct diff_thread *all = shown->diff->threads;

	rows_open(&shown->rows, table, &(struct rows_layout){ .title = title });
	if (shown->rows.format == ROWS_TEXT)
		put(shown);
	for (size_t i = 0; i < shown->diff->thread_count && shown->rows.format != ROWS_TEXT; i++) {
		shown->thread = &all[i];
		put(shown);
	}
	rows_close(&shown->rows);
}

static void show_text(struct shown *shown)
{
	int is_different = 0;

	note_modules(shown);
	for (size_t i = 0; i < shown->diff->thread_count; i++) {
		shown->thread = &shown->diff->threads[i];
		is_different |= shown->thread->is_different;
		note_pair(shown);
		put_table(shown, &step_table, NULL, put_steps);
		put_table(shown, &harmless_table,
			  shown->thread->is_different ? "harmless before that:" : "harmless:",
			  put_harmless);
	}
	if (shown->diff->thread_count && !is_different)
		rows_note(
			&shown->rows,
			"trails have no data: on the same path the values may differ, and the output");
}

int diff_show(struct diff *diff)
{
	struct shown shown = { .diff = diff };

	rows_begin(&shown.rows, diff->out, diff->options.json ? ROWS_JSON : ROWS_TEXT);
	if (diff->options.json) {
		rows_record(&shown.rows, &diff_table,
			    (const struct row_value[]){ row_text(diff->options.dirs[0]),
							row_text(diff->options.dirs[1]),
							row_bool(0) });
		put_table(&shown, &pair_table, NULL, put_pair);
		put_table(&shown, &step_table, NULL, put_steps);
		put_table(&shown, &harmless_table, NULL, put_harmless);
	} else {
		show_text(&shown);
	}
	return rows_end(&shown.rows);
}
