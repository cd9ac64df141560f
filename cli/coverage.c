/* SPDX-License-Identifier: MIT */
/*
 * waymark coverage: which lines, branches and functions ran, out of trails, as lcov has it.
 */
#include "base/array.h"
#include "base/out.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/lines_gather.h"
#include "cli/output.h"
#include "cli/source_text.h"
#include "read/rows/render.h"

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
	struct trail_wanted wanted;
};

/* How many there are, and how many of them ran. */
struct coverage_part {
	uint64_t total, hit;
};

struct coverage_source {
	const struct lines_source *source;
	char *path; /* its path here, or the path in the debug information */
	struct coverage_part lines, branches, functions; /* a conditional jump is two branches */
};

struct coverage {
	struct coverage_source *sources;
	size_t count, room;
};

static const char usage
	[] = "Usage: waymark coverage [OPTION]... DIR...\n"
	     "Tell which lines, branches and functions ran in the trails of all these traces, in\n"
	     "lcov's format: of all sources that are here and have code in a module that ran.\n"
	     "\n"
	     "  -o, --output FILE   into FILE, not to stdout\n"
	     "  --include GLOB      only sources whose path matches; may be given again\n"
	     "  --exclude GLOB      not those; may be given again\n"
	     "  --tid T             only this thread\n"
	     "  --pid P             only this process\n"
	     "  --all               also sources that are not here, and the compiler's headers\n"
	     "  --module GLOB       only code of these programs and libraries\n"
	     "  --summary           print a table; the lcov file only with -o\n"
	     "  --json              the table as one JSON object\n" TRAIL_BOUNDS_HELP
	     "  --source-dir DIR    the source's files are below DIR\n"
	     "  --root DIR          find the program's files below DIR, as on another machine\n"
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
	TRAIL_WANTED_ROWS(coverage_options, wanted),
	{ "source-dir", 0, COMMAND_TEXT, COMMAND_TO(coverage_options, source_dir) },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(coverage_options, image.root) },
	{ .name = NULL },
};

static const struct command_line command = { "coverage", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct coverage_options *options, int argc, char **argv)
{
	int status;

	*options = (struct coverage_options){ .lines.all_branches = 1 };
	status = command_line_read(&command, argc, argv, options);
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

/* What damage there is in one trace leaves the others whole. */
static int gather(struct lines *lines, struct coverage_options *options)
{
	int status = CLI_FINE;
	size_t threads = 0;

	for (size_t i = 0; i < options->dir_count; i++) {
		struct trail_wanted wanted = options->wanted;
		struct trail_view view;
		int one = trail_view_open(&view, options->dirs[i], &options->image), err;

		if (one == CLI_FINE)
			one = trail_bounds_find(&wanted.bounds, "coverage", &view);
		if (one == CLI_FINE) {
			threads += trail_view_count(&view, &wanted);
			err = lines_gather(lines, &view, &wanted);
			if (err)
				one = complain(err, "%s", options->dirs[i]);
			else
				trail_complain_missing(&view, &wanted, 1);
		}
		one = trail_view_close(&view, one);
		status = status == CLI_FINE ? one : status;
	}
	if (status == CLI_FINE && !threads)
		return complain(-WM_E_NOT_RECORDED,
				options->wanted.tid ? "a trail of --tid %u" : "a trail of --pid %u",
				options->wanted.tid ? options->wanted.tid : options->wanted.pid);
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

/* Sum up a source's lines, jumps and functions. */
static void source_sum(struct coverage_source *of)
{
	const struct lines_source *source = of->source;

	for (size_t i = 0; i < source->line_count; i++) {
		const struct lines_line *line = &source->lines[i];

		of->lines.total++;
		of->lines.hit += line->ran != 0;
		for (uint32_t j = 0; j < line->branch_count; j++) {
			of->branches.total += 2;
			of->branches.hit += !!line->branches[j].taken + !!line->branches[j].fell;
		}
	}
	of->functions.total = source->function_count;
	for (size_t i = 0; i < source->function_count; i++)
		of->functions.hit += source->functions[i].ran != 0;
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
	source_sum(to);
	coverage->count++;
	return 0;
}

/* ---- lcov's tracefile: geninfo(1) ---- */

static void put_number(struct out *out, const char *key, uint64_t value)
{
	out_text(out, key, strlen(key));
	out_u64(out, value);
	out_char(out, '\n');
}

/* A name ends where its line does. */
static void put_name(struct out *out, const char *name)
{
	for (; *name; name++)
		out_char(out, (unsigned char)*name < ' ' ? '?' : *name);
	out_char(out, '\n');
}

static void put_function(struct out *out, const char *key, uint64_t value, const char *name)
{
	out_text(out, key, strlen(key));
	out_u64(out, value);
	out_char(out, ',');
	put_name(out, name);
}

static void put_functions(struct out *out, const struct coverage_source *of)
{
	const struct lines_function *functions = of->source->functions;
	size_t count = of->source->function_count;

	for (size_t i = 0; i < count; i++)
		put_function(out, "FN:", functions[i].line, functions[i].name);
	for (size_t i = 0; i < count; i++)
		put_function(out, "FNDA:", functions[i].ran, functions[i].name);
	put_number(out, "FNF:", of->functions.total);
	put_number(out, "FNH:", of->functions.hit);
}

/* "-" is for a branch whose condition never came about. */
static void put_branch(struct out *out, uint32_t line, uint32_t jump, int way, uint64_t ran,
		       uint64_t count)
{
	out_literal(out, "BRDA:");
	out_u64(out, line);
	out_char(out, ',');
	out_u64(out, jump);
	out_char(out, ',');
	out_u64(out, (uint64_t)way);
	out_char(out, ',');
	if (ran)
		out_u64(out, count);
	else
		out_char(out, '-');
	out_char(out, '\n');
}

static void put_lcov(struct out *out, const struct coverage_source *of)
{
	const struct lines_source *source = of->source;

	out_literal(out, "TN:\nSF:");
	put_name(out, of->path);
	put_functions(out, of);
	for (size_t i = 0; i < source->line_count; i++) {
		const struct lines_line *line = &source->lines[i];

		for (uint32_t j = 0; j < line->branch_count; j++) {
			const struct lines_branch *branch = &line->branches[j];

			put_branch(out, line->number, j, 0, branch->ran, branch->taken);
			put_branch(out, line->number, j, 1, branch->ran, branch->fell);
		}
	}
	put_number(out, "BRF:", of->branches.total);
	put_number(out, "BRH:", of->branches.hit);
	for (size_t i = 0; i < source->line_count; i++) {
		out_literal(out, "DA:");
		out_u64(out, source->lines[i].number);
		out_char(out, ',');
		out_u64(out, source->lines[i].ran);
		out_char(out, '\n');
	}
	put_number(out, "LF:", of->lines.total);
	put_number(out, "LH:", of->lines.hit);
	out_literal(out, "end_of_record\n");
}

/* ---- a table ---- */

static void add(struct coverage_part *to, const struct coverage_part *part)
{
	to->total += part->total;
	to->hit += part->hit;
}

static double percent(const struct coverage_part *part)
{
	return part->total ? 100.0 * (double)part->hit / (double)part->total : 0;
}

/* 100% is all, and 0% none. */
static double percent_shown(const struct coverage_part *part)
{
	double shown = percent(part);

	if (part->hit < part->total && shown > 99.9)
		return 99.9;
	return part->hit && shown < 0.1 ? 0.1 : shown;
}

#define PART(name)                                                                                 \
	{ name, ROW_U64, ROW_COUNT, 0, "there are; a conditional jump is two branches" },          \
		{ name "_hit", ROW_U64, ROW_COUNT, 0, "that ran" },                                \
	{                                                                                          \
		name, ROW_DOUBLE, ROW_SHARE, 0, "null: there are none"                             \
	}

static const struct row_column source_columns[] = {
	PART("lines"),
	PART("branches"),
	PART("functions"),
	{ "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },
	{ "optimized", ROW_BOOL, ROW_PLAIN, ROW_QUIET, "so lines that ran may count as never run" },
};
static ROW_TABLE(source_table, "source", "Which of a source's lines, branches and functions ran.",
		 source_columns);
static ROW_TABLE(coverage_all_table, "all", "The sum of all sources.", source_columns);

static void put_row(struct rows *rows, const struct coverage_source *source, const char *name)
{
	const struct coverage_part *parts[] = { &source->lines, &source->branches,
						&source->functions };
	struct row_value row[11], *to = row;

	for (int i = 0; i < 3; i++) {
		const struct coverage_part *part = parts[i];
		int is_text = rows->format == ROWS_TEXT;

		*to++ = row_u64(part->total);
		*to++ = row_u64(part->hit);
		*to++ = !part->total ? row_null()
				     : row_double(is_text ? percent_shown(part) : percent(part));
	}
	*to++ = row_text(name);
	*to++ = row_bool(source->source && source->source->is_optimized);
	rows_put(rows, row);
}

/* A table; or one JSON object. 0 or a negative error of writing. */
static int put_table(struct out *out, const struct coverage *coverage, int json)
{
	struct coverage_source sum = { 0 };
	struct rows rows;
	char all[64];

	rows_begin(&rows, out, json ? ROWS_JSON : ROWS_TEXT);
	rows_open(&rows, &source_table, NULL);
	for (size_t i = 0; i < coverage->count && !out->error; i++) {
		const struct coverage_source *source = &coverage->sources[i];

		put_row(&rows, source, source->path);
		add(&sum.lines, &source->lines);
		add(&sum.branches, &source->branches);
		add(&sum.functions, &source->functions);
	}
	if (json) {
		rows_close(&rows);
		rows_open(&rows, &coverage_all_table, NULL);
	}
	snprintf(all, sizeof(all), "all %zu", coverage->count);
	put_row(&rows, &sum, all);
	rows_close(&rows);
	return rows_end(&rows);
}

/* ---- writing ---- */

static int write_lcov(struct out *out, const char *path, const struct coverage *coverage)
{
	struct output output = { .fd = STDOUT_FILENO };
	int err = path ? output_open(&output, path) : 0, closed;

	if (err)
		return complain(err, "%s", path);
	out_init(out, output.fd);
	for (size_t i = 0; i < coverage->count && !out->error; i++)
		put_lcov(out, &coverage->sources[i]);
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
	return put_table(&out, coverage, options->json) ? complain(out.error, "stdout") : status;
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
