/* SPDX-License-Identifier: MIT */
/*
 * waymark coverage: which lines, branches and functions ran, out of trails, as lcov has it.
 */
#include "cli/coverage.h"

#include "base/array.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/lines_gather.h"
#include "cli/output.h"
#include "cli/source_text.h"
#include "cli/trail_lost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

struct globs {
	const char **all;
	size_t count, room;
};

struct coverage_options {
	char **dirs;
	size_t dir_count;
	const char *output; /* NULL: stdout */
	struct globs include, exclude;
	int all, summary, json;
	int tracefile; /* asked for */
	const char *source_dir;
	struct lines_options lines;
	struct image_options image;
	struct trail_bounds bounds;
	uint32_t tid, pid; /* 0: all */
};

static const char usage[] =
	"Usage: waymark coverage [OPTION]... DIR...\n"
	"Tell which lines, branches and functions ran in the trails of all these traces, in lcov's\n"
	"format: of all sources that are here and have code in a module that ran.\n"
	"\n"
	"  -o, --output FILE   into FILE, not to stdout\n"
	"  --include GLOB      only sources whose path matches; may be given again\n"
	"  --exclude GLOB      not those; may be given again\n"
	"  --tid T             only this thread\n"
	"  --pid P             only this process\n"
	"  --all               also sources that are not here, and the compiler's own headers\n"
	"  --module GLOB       only code of these programs and libraries\n"
	"  --summary           print a table; the lcov file only with -o\n"
	"  --json              the table as one JSON object\n" TRAIL_BOUNDS_HELP
	"  --source-dir DIR    the source's files lie below DIR\n"
	"  --root DIR          find the program's files below DIR, as they were on another machine\n"
	"  -h, --help          this\n";

static int glob_add(void *options, const struct command_option *option, const char *text,
		    const char *name)
{
	struct globs *globs = (void *)((char *)options + option->at);

	(void)name;
	if (array_grow(&globs->all, &globs->room, globs->count + 1, sizeof(*globs->all)))
		return complain(-ENOMEM, "%s", text);
	globs->all[globs->count++] = text;
	return CLI_FINE;
}

static const struct command_option table[] = {
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(coverage_options, output) },
	{ "include", 0, COMMAND_CALL, COMMAND_TO(coverage_options, include), .take = glob_add },
	{ "exclude", 0, COMMAND_CALL, COMMAND_TO(coverage_options, exclude), .take = glob_add },
	{ "all", 0, COMMAND_FLAG, COMMAND_TO(coverage_options, all), .min = 1 },
	{ "module", 0, COMMAND_TEXT, COMMAND_TO(coverage_options, lines.module) },
	{ "summary", 0, COMMAND_FLAG, COMMAND_TO(coverage_options, summary), .min = 1 },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(coverage_options, json), .min = 1 },
	TRAIL_BOUNDS_ROWS(coverage_options),
	{ "source-dir", 0, COMMAND_TEXT, COMMAND_TO(coverage_options, source_dir) },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(coverage_options, image.root) },
	{ "tid", 0, COMMAND_ID, COMMAND_TO(coverage_options, tid) },
	{ "pid", 0, COMMAND_ID, COMMAND_TO(coverage_options, pid) },
	{ .name = NULL },
};

static const struct command_line line = { "coverage", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct coverage_options *options, int argc, char **argv)
{
	int status;

	*options = (struct coverage_options){ .lines.all_branches = 1 };
	status = command_line_read(&line, argc, argv, options);
	if (status >= 0)
		return status;
	options->tracefile = options->output != NULL;
	if (options->output && !strcmp(options->output, "-"))
		options->output = NULL;
	if (optind == argc)
		return complain_usage("coverage", "name a trace's folder");
	options->dirs = argv + optind;
	options->dir_count = (size_t)(argc - optind);
	return -1;
}

/* ---- gathering ---- */

static size_t threads_wanted(const struct trail_view *view, const struct coverage_options *options)
{
	size_t count = 0;

	for (size_t i = 0; i < view->trails.path_count; i++) {
		const struct trace_stream *stream = view->trails.paths[i].stream;

		count += (!options->tid || stream->tid == options->tid) &&
			 (!options->pid || stream->pid == options->pid);
	}
	return count;
}

/* What damage there is in one trace leaves the others whole. */
static int gather(struct lines *lines, struct coverage_options *options)
{
	const struct lines_wanted wanted = { options->tid, options->pid, &options->bounds };
	int status = CLI_FINE;
	size_t threads = 0;

	for (size_t i = 0; i < options->dir_count; i++) {
		struct trail_bounds *bounds = &options->bounds;
		const struct trail_bounds as_given = *bounds;
		struct trail_view view;
		int one = trail_view_open(&view, options->dirs[i], &options->image), err;

		if (one == CLI_FINE)
			one = trail_bounds_find(bounds, "coverage", &view);
		if (one == CLI_FINE) {
			threads += threads_wanted(&view, options);
			err = lines_gather(lines, &view, &wanted);
			if (err)
				one = complain(err, "%s", options->dirs[i]);
			else
				trail_complain_lost(&view,
						    &(struct trail_lost_wanted){
							    options->tid, options->pid, bounds });
		}
		*bounds = as_given;
		one = trail_view_close(&view, one);
		status = status == CLI_FINE ? one : status;
	}
	if (status == CLI_FINE && !threads)
		return complain(-WM_E_NOT_RECORDED,
				options->tid ? "a trail of --tid %u" : "a trail of --pid %u",
				options->tid ? options->tid : options->pid);
	return status;
}

static int is_among(const struct globs *globs, const char *path, const char *found)
{
	for (size_t i = 0; i < globs->count; i++)
		if (source_matches(globs->all[i], path) || source_matches(globs->all[i], found))
			return 1;
	return 0;
}

/* Headers that come with a compiler: no one tests them by the program. */
static int is_of_compiler(const char *path)
{
	static const char *const folders[] = { "*/lib/gcc/*/include*/*", "*/lib64/gcc/*/include*/*",
					       "*/lib/clang/*/include/*", "*/include/c++/*" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (source_matches(folders[i], path))
			return 1;
	return 0;
}

static int source_add(struct coverage *coverage, const struct coverage_options *options,
		      const struct lines_source *source)
{
	char found[PATH_MAX];
	struct coverage_source *to;
	struct stat about;

	if (source_find(source->path, options->source_dir, found)) {
		if (!options->all)
			return 0;
		snprintf(found, sizeof(found), "%s", source->path);
	}
	if (!options->all && !options->include.count && is_of_compiler(source->path))
		return 0;
	if ((options->include.count && !is_among(&options->include, source->path, found)) ||
	    is_among(&options->exclude, source->path, found))
		return 0;
	if (array_grow(&coverage->sources, &coverage->room, coverage->count + 1,
		       sizeof(*coverage->sources)))
		return -ENOMEM;
	to = &coverage->sources[coverage->count];
	*to = (struct coverage_source){ .source = source, .path = strdup(found) };
	if (!to->path)
		return -ENOMEM;
	if (!stat(found, &about))
		source_complain_changed(found, about.st_mtime, source->built_s);
	coverage_sum(to);
	coverage->count++;
	return 0;
}

/* ---- writing ---- */

static int write_lcov(struct out *out, const char *path, const struct coverage *coverage)
{
	struct output output = { .fd = STDOUT_FILENO };
	int err = path ? output_open(&output, path) : 0, closed;

	if (err)
		return complain(err, "%s", path);
	out_init(out, output.fd);
	coverage_put_lcov(out, coverage);
	err = out_flush(out);
	closed = path ? output_close(&output, err != 0) : 0;
	err = err ? err : closed;
	return err ? complain(err, "%s", path ? path : "stdout") : CLI_FINE;
}

static int print(const struct coverage_options *options, const struct coverage *coverage)
{
	static struct out out;
	int status = CLI_FINE, is_told = options->summary || options->json;

	if (options->tracefile || !is_told)
		status = write_lcov(&out, options->output, coverage);
	if (!is_told)
		return status;
	out_init(&out, STDOUT_FILENO);
	return coverage_print(&out, coverage, options->json) ? complain(out.error, "stdout")
							     : status;
}

/* Which sources these are: --summary and --json mark them. */
static void complain_optimized(const struct coverage *coverage)
{
	const char *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < coverage->count; i++) {
		const struct coverage_source *source = &coverage->sources[i];

		if (!source->source->is_optimized || source->lines.hit == source->lines.total)
			continue;
		first = first ? first : source->path;
		count++;
	}
	if (!count)
		return;
	complain_words("waymark: compiled with optimization, so lines that ran may count as never "
		       "run: %s",
		       first);
	if (count > 1)
		fprintf(stderr, " and %zu more (--summary marks them)", count - 1);
	fputc('\n', stderr);
}

/* ---- all of it ---- */

static int cover(const struct coverage_options *options, const struct lines *lines)
{
	struct coverage coverage = { 0 };
	const struct lines_source *source;
	size_t sources = 0;
	int err = 0, status;

	for (; !err && (source = lines_source(lines, sources)); sources++)
		err = source_add(&coverage, options, source);
	if (err)
		status = complain(err, "coverage");
	else if (!coverage.count)
		status = complain(-WM_E_NOT_RECORDED,
				  LINES_LACKING "; %zu others have code in what ran; --all "
						"takes those that are not here too",
				  sources);
	else
		status = print(options, &coverage);
	complain_optimized(&coverage);
	for (size_t i = 0; i < coverage.count; i++)
		free(coverage.sources[i].path);
	free(coverage.sources);
	return status;
}

int cmd_coverage(int argc, char **argv)
{
	struct coverage_options options;
	struct lines *lines = NULL;
	int status = read_options(&options, argc, argv), read, err;

	if (status < 0) {
		err = lines_open(&lines, &options.lines);
		read = err ? complain(err, "coverage") : gather(lines, &options);
		err = err || read == CLI_USAGE ? err : lines_settle(lines);
		if (err)
			status = complain(err, "coverage");
		else if (read == CLI_USAGE)
			status = read;
		else if (!lines_complain(lines))
			status = read != CLI_FINE ? read
						  : complain(-WM_E_NOT_RECORDED, LINES_LACKING);
		else
			status = cover(&options, lines);
		status = status == CLI_FINE ? read : status;
	}
	lines_close(lines);
	free(options.include.all);
	free(options.exclude.all);
	return status;
}
