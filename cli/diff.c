/* SPDX-License-Identifier: MIT */
/*
 * waymark diff: the first place where two runs part. Exit status as diff(1): 0 the same, 1
 * different, 2 trouble.
 */
#include "base/out.h"
#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/pulse.h"
#include "cli/trail_view.h"
#include "cli/trail_words.h"
#include "read/history/callers.h"
#include "read/history/divergence.h"
#include "read/rows/render.h"
#include "trace/trail/pair.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define CALLERS_MAX 32
#define LAST_DEFAULT 8
#define LAST_MAX 1000000
#define HARMLESS_NAMES 64

enum diff_status { DIFF_SAME = 0, DIFF_DIFFERENT = 1, DIFF_TROUBLE = 2 };

struct diff_options {
	const char *dirs[2];
	uint64_t last;		   /* blocks that are shown before and behind */
	uint32_t tids[2], pids[2]; /* 0: all */
	struct trail_bounds bounds;
	int json;
	struct divergence_options divergence;
	const char *harmless[HARMLESS_NAMES];
	struct image_options image;
};

/* A pair of threads, compared. */
struct diff_thread {
	struct trail_pair pair;
	struct divergence divergence; /* where both are there */
	int is_different;
};

struct diff {
	struct diff_options options;
	struct trail_view views[2];
	struct trail_wanted wanted[2]; /* as the options have it, its bounds found in each trace */
	struct trail_path *of_process[2]; /* copies of the paths that are paired; NULL: all are */
	struct alike *alike;
	struct diff_thread *threads;
	size_t thread_count;
	struct out *out;
};

/* An address on a side, as it was when blocks of that table ran. */
struct diff_address {
	int side;
	uint64_t address;
	const struct trail_table *table;
};

static const char usage[] =
	"Usage: waymark diff [OPTION]... A B\n"
	"Show the first place where the trails of two runs part: the traces in A and B.\n"
	"\n"
	"  -n, --last N      show the last N blocks before it, and N behind (default 8)\n"
	"  --tid A:B         compare only these two threads\n"
	"  --pid A:B         compare only the threads of these two processes\n" TRAIL_BOUNDS_HELP
	"  --harmless NAMES  another way within a function or module of such a name is harmless\n"
	"                    too (may be repeated; * and ? as in the shell)\n"
	"  --all             another way within the C library and its like is a difference\n"
	"  --strict          and so are signals at other moments and results of system calls\n"
	"  --root DIR        find the program's files below DIR, as they were on another machine\n"
	"  --json            as one JSON object\n"
	"  -h, --help        this\n"
	"\n"
	"The status is 0 if both took the same branches, 1 if not, 2 if that is unknown. Data is\n"
	"not compared.\n";

static void comparing(uint64_t done, uint64_t all)
{
	pulse_beat("comparing", done, all);
}

/* A thread or a process of each trace. */
static int take_ids(void *options, const struct command_option *option, const char *text,
		    const char *name)
{
	uint32_t *ids = (void *)((char *)options + option->at);
	uint64_t both[2] = { 0 };
	const char *end = quantity_number_at(text, UINT32_MAX, &both[0]);

	if (end && *end == ':')
		end = quantity_number_at(end + 1, UINT32_MAX, &both[1]);
	if (!end || *end || !both[0] || !both[1])
		return complain_usage(name, "--%s takes one of A and one of B, as 12:34, not %s",
				      option->name, text);
	ids[0] = (uint32_t)both[0];
	ids[1] = (uint32_t)both[1];
	return CLI_FINE;
}

static int take_harmless(void *data, const struct command_option *option, const char *text,
			 const char *name)
{
	struct diff_options *options = data;
	size_t *count = &options->divergence.harmless_count;

	if (*count == HARMLESS_NAMES)
		return complain_usage(name, "--%s may be given %d times", option->name,
				      HARMLESS_NAMES);
	options->harmless[(*count)++] = text;
	return CLI_FINE;
}

static const struct command_option option_table[] = {
	{ "last", 'n', COMMAND_NUMBER, COMMAND_TO(diff_options, last), .max = LAST_MAX },
	{ "tid", 0, COMMAND_CALL, COMMAND_TO(diff_options, tids), .take = take_ids },
	{ "pid", 0, COMMAND_CALL, COMMAND_TO(diff_options, pids), .take = take_ids },
	TRAIL_BOUNDS_ROWS(diff_options, bounds),
	{ "harmless", 0, COMMAND_CALL, .take = take_harmless },
	{ "all", 0, COMMAND_FLAG, COMMAND_TO(diff_options, divergence.all), .min = 1 },
	{ "strict", 0, COMMAND_FLAG, COMMAND_TO(diff_options, divergence.strict), .min = 1 },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(diff_options, image.root) },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(diff_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line command = { "diff", usage, option_table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct diff_options *options, int argc, char **argv)
{
	int status;

	*options = (struct diff_options){ .last = LAST_DEFAULT };
	options->divergence.harmless = options->harmless;
	options->divergence.pulse = comparing;
	status = command_line_read(&command, argc, argv, options);
	if (status >= 0)
		return status;
	if (optind != argc - 2)
		return complain_usage("diff", "name the folders of two traces");
	options->dirs[0] = argv[optind];
	options->dirs[1] = argv[optind + 1];
	return -1;
}

/* ---- threads ---- */

static const struct trail_path *path_of(struct diff *diff, int side)
{
	const struct trails *trails = &diff->views[side].trails;

	for (size_t i = 0; i < trails->path_count; i++)
		if (trails->paths[i].stream->tid == diff->options.tids[side])
			return &trails->paths[i];
	complain(-WM_E_NOT_RECORDED, "a trail of thread %u: %s", diff->options.tids[side],
		 diff->options.dirs[side]);
	return NULL;
}

/* What a side has of the process that is asked for, or of all. 0 or -ENOMEM. */
static int paths_of(struct diff *diff, int side, struct trails *of)
{
	const struct trails *all = &diff->views[side].trails;
	uint32_t pid = diff->options.pids[side];
	struct trail_path *paths;

	*of = *all;
	if (!pid)
		return 0;
	of->paths = paths = diff->of_process[side] = calloc(all->path_count + 1, sizeof(*paths));
	of->path_count = 0;
	for (size_t i = 0; paths && i < all->path_count; i++)
		if (all->paths[i].stream->pid == pid)
			paths[of->path_count++] = all->paths[i];
	return paths ? 0 : -ENOMEM;
}

/* The pairs of all that is asked for. 0, -ENOMEM, -WM_E_NOT_RECORDED. */
static int threads_pair(struct diff *diff, struct trail_pair **pairs, size_t *count)
{
	struct trails of[2];

	for (int i = 0; i < 2; i++) {
		int err = paths_of(diff, i, &of[i]);

		if (err)
			return err;
		if (!of[i].path_count)
			return -WM_E_NOT_RECORDED;
	}
	return trails_pair(pairs, count, &of[0], &of[1]);
}

/* Which threads are compared. DIFF_SAME; DIFF_TROUBLE, all being said. */
static int threads_choose(struct diff *diff)
{
	struct trail_pair chosen = { { NULL, NULL } }, *pairs = NULL;
	size_t count = 1;
	int err = 0;

	if (diff->options.tids[0]) {
		chosen.of[0] = path_of(diff, 0);
		chosen.of[1] = path_of(diff, 1);
		if (!chosen.of[0] || !chosen.of[1])
			return DIFF_TROUBLE;
	} else {
		err = threads_pair(diff, &pairs, &count);
	}
	if (!err)
		diff->threads = calloc(count, sizeof(*diff->threads));
	if (!err && !diff->threads)
		err = -ENOMEM;
	if (err) {
		free(pairs);
		complain(err, "%s%s or %s",
			 err == -WM_E_NOT_RECORDED ? "a trail of that process: " : "",
			 diff->options.dirs[0], diff->options.dirs[1]);
		return DIFF_TROUBLE;
	}
	for (size_t i = 0; i < count; i++)
		diff->threads[i].pair = pairs ? pairs[i] : chosen;
	diff->thread_count = count;
	free(pairs);
	return DIFF_SAME;
}

/* Compare the parts between the bounds. 0 or -ENOMEM. */
static int compare(struct diff *diff, struct diff_thread *thread)
{
	struct trail_path cuts[2] = { { 0 }, { 0 } };
	const struct trail_path *const paths[] = { &cuts[0], &cuts[1] };
	struct image *images[2] = { NULL, NULL };
	struct trail_range ranges[2];
	int err = 0;

	thread->is_different = 1;
	if (!thread->pair.of[0] || !thread->pair.of[1])
		return 0;
	for (int i = 0; i < 2 && !err; i++) {
		images[i] = trail_view_image(&diff->views[i], thread->pair.of[i]);
		trail_bounds_range(&diff->wanted[i].bounds, &diff->views[i], thread->pair.of[i],
				   &ranges[i]);
		err = images[i] ? trail_range_cut(&ranges[i], &cuts[i]) : -ENOMEM;
	}
	if (!err)
		err = divergence_find(&thread->divergence, diff->alike, paths, images,
				      &diff->options.divergence);
	pulse_end();
	for (int i = 0; i < 2; i++) {
		if (!err)
			trail_range_uncut(&ranges[i], &thread->divergence.at[i]);
		free(cuts[i].parts);
	}
	thread->is_different = thread->divergence.kind != DIVERGENCE_NONE;
	return err;
}

/* ---- words ---- */

static void event_words(const struct trail_between *event, char *text, size_t bytes)
{
	int64_t number = (int64_t)event->values[0], second = (int64_t)event->values[1];
	char name[48];

	switch ((enum trail_event)event->event) {
	case TRAIL_SIGNAL:
		snprintf(text, bytes, "gets %s", words_signal(event->values[0], name));
		break;
	case TRAIL_SYSCALLED:
		snprintf(text, bytes, "comes back from %s with %" PRId64,
			 words_call(event->values[0], name), second);
		break;
	case TRAIL_FORK:
		snprintf(text, bytes, "makes a thread or process, %" PRId64, number);
		break;
	case TRAIL_EXEC:
		snprintf(text, bytes, "executes another program");
		break;
	case TRAIL_END:
		if (number == TRAIL_KILLED)
			snprintf(text, bytes, "is killed by %s",
				 words_signal(event->values[1], name));
		else if (number == TRAIL_ENDED_WITH)
			snprintf(text, bytes, "ends with the process, by %s",
				 words_signal(event->values[1], name));
		else if (number == TRAIL_EXITED)
			snprintf(text, bytes, "exits with %" PRId64, second);
		else
			snprintf(text, bytes, "is recorded no longer");
		break;
	case TRAIL_LOST:
	case TRAIL_GAP:
		snprintf(text, bytes, "%s",
			 event->event == TRAIL_GAP && number == TRAIL_GAP_ELSEWHERE
				 ? "runs unrecorded in other modules"
				 : "has blocks missing");
		break;
	default:
		snprintf(text, bytes, "%s the processor",
			 event->event == TRAIL_DEPART ? "loses" : "gets");
	}
}

/*
 * What came next on a side, in words: "continues at", "gets signal 14", "exits with 3". Into
 * text[]; returns whether a place belongs to it.
 */
static int next_words(const struct diff_thread *thread, int side, struct diff_address *address,
		      char *text, size_t bytes)
{
	struct trail_cursor cursor = thread->divergence.at[side];
	struct trail_item item;

	if (!trail_next(&cursor, &item)) {
		snprintf(text, bytes, "is recorded no longer");
		return 0;
	}
	if (!item.block) {
		event_words(item.between, text, bytes);
		return 0;
	}
	*address = (struct diff_address){ side, item.block->start + thread->divergence.from[side],
					  item.table };
	snprintf(text, bytes, "continues at");
	return 1;
}

static void harmless_words(const struct divergence_harmless *harmless, char *text, size_t bytes)
{
	char name[48];

	switch (harmless->kind) {
	case HARMLESS_LIBRARY:
		snprintf(text, bytes, "another way in %s%s%s",
			 harmless->function ? harmless->function : "",
			 harmless->function ? " of " : "",
			 harmless->module ? harmless->module : "code of no module");
		break;
	case HARMLESS_SIGNAL:
		snprintf(text, bytes, "%s", words_signal((uint64_t)harmless->number, name));
		break;
	case HARMLESS_RESULT:
		snprintf(text, bytes, "another result of %s",
			 words_call((uint64_t)harmless->number, name));
		break;
	case HARMLESS_AGAIN:
		snprintf(text, bytes, "a system call broken off, and made again");
		break;
	}
}

/* ---- tables ---- */

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
	const struct image_place *place = NULL;
	struct image_line line = { 0 };
	struct image *image = NULL;
	char text[512] = "";

	if (at) {
		image = trail_view_image(&shown->diff->views[at->side],
					 shown->thread->pair.of[at->side]);
		image = image ? image_in(image, at->table) : NULL;
	}
	if (at && image) {
		place = image_place(image, at->address);
		image_line(image, at->address, &line);
		if (place && place->function)
			snprintf(text, sizeof(text), "%s+0x%" PRIx64, place->function,
				 at->address - place->start);
		else if (place && place->module)
			snprintf(text, sizeof(text), "%s+0x%" PRIx64, place->module->name,
				 at->address - place->module->base);
	}
	ROWS_PUT(&shown->rows, step_columns, row_u64(pair_number(shown)), row_text(step),
		 row_text(what), at ? row_address(at->address) : row_null(), row_words(text),
		 row_text(place ? place->function : NULL), row_text(place ? place->linkage : NULL),
		 row_text(place && place->module ? place->module->path : NULL),
		 row_text(line.source), row_u64(line.source ? line.line : 0), row_s64(signal));
}

static void put_side(struct shown *shown, int side)
{
	struct diff_address address;
	char text[160];
	int has_place = next_words(shown->thread, side, &address, text, sizeof(text));

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
	next_words(&before, side, &address, text, sizeof(text));
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

		harmless_words(harmless, text, sizeof(text));
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
		rows_note(&shown->rows,
			  "trails have no data: on the same path the values may differ, and the "
			  "output");
}

static int diff_show(struct diff *diff)
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

/* ---- all ---- */

/* Only one side has this part, so what the other did is unknown. */
static int is_untold(const struct divergence *divergence)
{
	return divergence->is_unsure || divergence->is_over[0] != divergence->is_over[1];
}

static int threads_compare(struct diff *diff)
{
	int err = alike_open(&diff->alike), status = DIFF_SAME;

	for (size_t i = 0; i < diff->thread_count && !err; i++) {
		struct diff_thread *thread = &diff->threads[i];

		err = compare(diff, thread);
		if (thread->is_different)
			status = DIFF_DIFFERENT;
		else if (is_untold(&thread->divergence) && status == DIFF_SAME)
			status = DIFF_TROUBLE;
	}
	if (err) {
		complain(err, "%s", diff->options.dirs[0]);
		return DIFF_TROUBLE; /* what was not compared to its end has nothing to show */
	}
	return diff->thread_count && diff_show(diff) ? DIFF_TROUBLE : status;
}

static int run(struct diff *diff)
{
	int status = threads_choose(diff);

	if (status == DIFF_SAME)
		status = threads_compare(diff);
	out_flush(diff->out);
	if (!diff->out->error)
		return status;
	complain(diff->out->error, "standard output");
	return DIFF_TROUBLE;
}

int cmd_diff(int argc, char **argv)
{
	static struct out out;
	struct diff diff = { .out = &out };
	int status = read_options(&diff.options, argc, argv), damaged = CLI_FINE;
	size_t cut = 0;

	if (status >= 0)
		return status;
	out_init(&out, STDOUT_FILENO);
	for (int i = 0; i < 2 && status < 0; i++) {
		diff.wanted[i] = (struct trail_wanted){ diff.options.tids[i], diff.options.pids[i],
							diff.options.bounds };
		if (trail_view_open(&diff.views[i], diff.options.dirs[i], &diff.options.image) ||
		    trail_bounds_find(&diff.wanted[i].bounds, "diff", &diff.views[i]))
			status = DIFF_TROUBLE;
	}
	if (status < 0)
		status = run(&diff);
	for (int i = 0; i < 2; i++)
		if (diff.views[i].trails.path_count)
			cut += trail_complain_missing(&diff.views[i], &diff.wanted[i], 0);
	for (size_t i = 0; i < diff.thread_count; i++)
		divergence_release(&diff.threads[i].divergence);
	free(diff.threads);
	free(diff.of_process[0]);
	free(diff.of_process[1]);
	alike_close(diff.alike);
	for (int i = 0; i < 2; i++)
		if (diff.views[i].dir && trail_view_close(&diff.views[i], CLI_FINE))
			damaged = CLI_FAILED;
	return status == DIFF_SAME && (damaged || cut) ? DIFF_TROUBLE : status;
}
