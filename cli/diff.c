/* SPDX-License-Identifier: MIT */
/*
 * waymark diff: the first place where two runs part. Exit status as diff(1): 0 the same, 1
 * different, 2 trouble.
 */
#include "cli/diff.h"

#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/pulse.h"
#include "cli/trail_lost.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/error.h>

#define LAST_DEFAULT 8
#define LAST_MAX 1000000

enum diff_status { DIFF_SAME = 0, DIFF_DIFFERENT = 1, DIFF_TROUBLE = 2 };

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

	if (*count == DIFF_HARMLESS_NAMES)
		return complain_usage(name, "--%s may be given %d times", option->name,
				      DIFF_HARMLESS_NAMES);
	options->harmless[(*count)++] = text;
	return CLI_FINE;
}

static const struct command_option table[] = {
	{ "last", 'n', COMMAND_NUMBER, COMMAND_TO(diff_options, last), .max = LAST_MAX },
	{ "tid", 0, COMMAND_CALL, COMMAND_TO(diff_options, tids), .take = take_ids },
	{ "pid", 0, COMMAND_CALL, COMMAND_TO(diff_options, pids), .take = take_ids },
	TRAIL_BOUNDS_ROWS(diff_options),
	{ "harmless", 0, COMMAND_CALL, .take = take_harmless },
	{ "all", 0, COMMAND_FLAG, COMMAND_TO(diff_options, divergence.all), .min = 1 },
	{ "strict", 0, COMMAND_FLAG, COMMAND_TO(diff_options, divergence.strict), .min = 1 },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(diff_options, image.root) },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(diff_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "diff", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct diff_options *options, int argc, char **argv)
{
	int status;

	*options = (struct diff_options){ .last = LAST_DEFAULT };
	options->divergence.harmless = options->harmless;
	options->divergence.pulse = comparing;
	status = command_line_read(&line, argc, argv, options);
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
static int compare_stretches(struct diff *diff, struct diff_thread *thread,
			     struct image *const images[2])
{
	struct trail_path cuts[2] = { { 0 }, { 0 } };
	const struct trail_path *const paths[] = { &cuts[0], &cuts[1] };
	struct trail_range ranges[2];
	int err = 0;

	for (int i = 0; i < 2 && !err; i++) {
		trail_bounds_range(&diff->bounds[i], &diff->views[i], thread->pair.of[i],
				   &ranges[i]);
		err = trail_range_cut(&ranges[i], &cuts[i]);
	}
	if (!err)
		err = divergence_find(&thread->divergence, diff->alike, paths, images,
				      &diff->options.divergence);
	for (int i = 0; i < 2; i++) {
		if (!err)
			trail_range_uncut(&ranges[i], &thread->divergence.at[i]);
		free(cuts[i].parts);
	}
	return err;
}

static int compare(struct diff *diff, struct diff_thread *thread)
{
	const struct trail_path *const *paths = thread->pair.of;
	struct image *images[2] = { NULL, NULL };

	thread->is_different = 1;
	if (!paths[0] || !paths[1])
		return 0;
	for (int i = 0; i < 2; i++) {
		images[i] = trail_view_image(&diff->views[i], paths[i]);
		if (!images[i])
			return -ENOMEM;
	}
	int err = compare_stretches(diff, thread, images);
	pulse_end();
	thread->is_different = thread->divergence.kind != DIVERGENCE_NONE;
	return err;
}

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

static size_t cut_of(const struct diff *diff, int side)
{
	const struct trail_lost_wanted wanted = { .tid = diff->options.tids[side],
						  .pid = diff->options.pids[side],
						  .bounds = &diff->bounds[side] };

	return diff->views[side].trails.path_count ? trail_complain_cut(&diff->views[side], &wanted)
						   : 0;
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
		diff.bounds[i] = diff.options.bounds;
		if (trail_view_open(&diff.views[i], diff.options.dirs[i], &diff.options.image) ||
		    trail_bounds_find(&diff.bounds[i], "diff", &diff.views[i]))
			status = DIFF_TROUBLE;
	}
	if (status < 0)
		status = run(&diff);
	for (int i = 0; i < 2; i++)
		cut += cut_of(&diff, i);
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
