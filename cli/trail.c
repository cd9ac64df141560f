/* SPDX-License-Identifier: MIT */
/*
 * waymark trail: which way threads took, out of a trace that has it.
 */
#include "cli/trail.h"

#include "base/name_match.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/lines_gather.h"
#include "cli/source_text.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include <waymark/error.h>

#define LAST_DEFAULT 32
#define THREADS_SHOWN 20

static const char usage[] =
	"Usage: waymark trail [OPTION]... DIR\n"
	"Show which way the threads of the trace in DIR took.\n"
	"\n"
	"  --branches    the branches that each thread took, and what came between (the default)\n"
	"  --instructions each instruction that ran\n"
	"  --blocks      each different block of code: how often it ran, what ran next\n"
	"  --calls       who called whom, as it went\n"
	"  --functions   how much of what ran each function was, itself and with what it called\n"
	"  --lines       the source, and beside each line how often it ran\n"
	"\n"
	"  -n, --last N  only the last N branches, instructions or calls of each thread, the N\n"
	"                blocks or functions that ran most (default 32; 0: all)\n"
	"  --depth N     of calls, only those nested no deeper\n"
	"  --tid T       only this thread\n"
	"  --pid P       only this process\n" TRAIL_BOUNDS_HELP
	"  --module GLOB only code of these programs and libraries (not with --calls)\n"
	"  --root DIR    find the program's files below DIR, as they were on another machine\n"
	"  --no-parameters name functions without parameters: f, and not f(int)\n"
	"  -v, --verbose addresses too; with --blocks, their code\n"
	"  --intel       instructions in Intel's syntax\n"
	"  --source GLOB with --lines, only sources whose path matches\n"
	"  --function NAME with --lines, only lines with code in this function; may be a glob\n"
	"  --source-dir DIR with --lines, the source's files are below DIR\n"
	"  --json        one JSON object a line\n"
	"  -h, --help    this\n";

/* Ways to show a trail. */
enum way { WAY_BRANCHES, WAY_INSTRUCTIONS, WAY_BLOCKS, WAY_CALLS, WAY_FUNCTIONS, WAY_LINES };

static int (*const ways[])(struct trail_show *show) = {
	[WAY_BRANCHES] = trail_branches,   [WAY_INSTRUCTIONS] = trail_instructions,
	[WAY_BLOCKS] = trail_blocks,	   [WAY_CALLS] = trail_calls,
	[WAY_FUNCTIONS] = trail_functions, [WAY_LINES] = trail_lines,
};

#define WAY(word, one)                                                                             \
	{                                                                                          \
		word, 0, COMMAND_FLAG, COMMAND_TO(trail_options, way), .min = one                  \
	}

static const struct command_option table[] = {
	{ "last", 'n', COMMAND_NUMBER, COMMAND_TO(trail_options, last), .max = UINT64_MAX - 1 },
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(trail_options, image.root) },
	TRAIL_WANTED_ROWS(trail_options, wanted),
	WAY("branches", WAY_BRANCHES),
	WAY("instructions", WAY_INSTRUCTIONS),
	WAY("blocks", WAY_BLOCKS),
	WAY("lines", WAY_LINES),
	WAY("calls", WAY_CALLS),
	WAY("functions", WAY_FUNCTIONS),
	{ "module", 0, COMMAND_TEXT, COMMAND_TO(trail_options, module) },
	{ "source", 0, COMMAND_TEXT, COMMAND_TO(trail_options, source) },
	{ "function", 0, COMMAND_TEXT, COMMAND_TO(trail_options, function) },
	{ "source-dir", 0, COMMAND_TEXT, COMMAND_TO(trail_options, source_dir) },
	{ "no-parameters", 0, COMMAND_FLAG, COMMAND_TO(trail_options, image.with_parameters) },
	{ "intel", 0, COMMAND_FLAG, COMMAND_TO(trail_options, is_intel), .min = 1 },
	{ "verbose", 'v', COMMAND_FLAG, COMMAND_TO(trail_options, is_verbose), .min = 1 },
	{ "depth", 0, COMMAND_NUMBER, COMMAND_TO(trail_options, depth), .max = UINT32_MAX },
	{ "json", 0, COMMAND_FLAG, COMMAND_TO(trail_options, json), .min = 1 },
	{ .name = NULL },
};

static const struct command_line line = { "trail", usage, table, 0 };

/* -1 to continue, else the exit status. */
static int read_options(struct trail_options *options, int argc, char **argv)
{
	int status;

	*options = (struct trail_options){ .last = LAST_DEFAULT, .image.with_parameters = 1 };
	status = command_line_read(&line, argc, argv, options);
	if (!options->last)
		options->last = UINT64_MAX;
	if (status < 0 && options->module && options->way == WAY_CALLS)
		return complain_usage("trail", "--calls shows the code of all modules, so --module "
					       "goes with the other ways to show a trail");
	return status < 0 ? command_line_folder(&line, argc, argv, &options->dir) : status;
}

static int module_matches(const struct trail_show *show, const struct image_module *module)
{
	return name_match_module(show->options.module, module->path);
}

int trail_shows_module(struct trail_show *show, const struct image_module *module)
{
	if (!show->options.module)
		return 1;
	if (module && module != show->asked) {
		show->asked = module;
		show->is_asked_wanted = module_matches(show, module);
	}
	return module && show->is_asked_wanted;
}

int trail_is_in_module(struct trail_show *show, struct image *image, uint64_t address)
{
	const struct image_place *place = show->options.module ? image_place(image, address) : NULL;

	return !show->options.module || trail_shows_module(show, place ? place->module : NULL);
}

/* Whether --module matches a module of a process whose threads are wanted. */
static int has_module(struct trail_show *show)
{
	const struct image_module *module;

	for (size_t i = 0; i < show->view.trails.path_count; i++) {
		const struct trail_path *path = &show->view.trails.paths[i];
		struct image *image = trail_wants(&show->options.wanted, path->stream)
					      ? trail_view_image(&show->view, path)
					      : NULL;

		for (size_t j = 0; image && (module = image_module(image, j)); j++)
			if (module_matches(show, module))
				return 1;
	}
	return 0;
}

static int complain_module(const struct trail_show *show)
{
	complain_words("waymark: no module of the trace matches --module %s: %s",
		       show->options.module, show->options.dir);
	fputc('\n', stderr);
	return CLI_FAILED;
}

/* No thread is wanted of those that there are: which are there? */
static int complain_threads(const struct trail_show *show)
{
	const struct trails *trails = &show->view.trails;
	size_t shown = trails->path_count < THREADS_SHOWN ? trails->path_count : THREADS_SHOWN;
	uint32_t tid = show->options.wanted.tid, pid = show->options.wanted.pid;
	int status;

	if (tid && pid)
		status = complain(-WM_E_NOT_RECORDED, "a trail of --tid %u --pid %u", tid, pid);
	else
		status = complain(-WM_E_NOT_RECORDED,
				  tid ? "a trail of --tid %u" : "a trail of --pid %u",
				  tid ? tid : pid);
	for (size_t i = 0; i < shown; i++) {
		const struct trace_stream *stream = trails->paths[i].stream;

		complain_words(i ? ", %s (--tid %u, --pid %u)"
				 : "  it has those of %s (--tid %u, --pid %u)",
			       stream->comm, stream->tid, stream->pid);
	}
	if (trails->path_count > shown)
		fprintf(stderr, " and %zu more", trails->path_count - shown);
	fputc('\n', stderr);
	return status;
}

/* Before anything is shown. An exit status. */
static int prepare(struct trail_show *show)
{
	int err, status = trail_bounds_find(&show->options.wanted.bounds, "trail", &show->view);

	if (status != CLI_FINE)
		return status;
	if (!trail_view_count(&show->view, &show->options.wanted))
		return complain_threads(show);
	if (show->options.module && !has_module(show))
		return complain_module(show);
	err = instruction_format_open(&show->format,
				      show->options.is_intel ? INSTRUCTION_INTEL : INSTRUCTION_ATT);
	return err ? complain(err, "%s", show->options.dir) : CLI_FINE;
}

int cmd_trail(int argc, char **argv)
{
	static struct out out;
	struct trail_show show = { .out = &out };
	int err, status = read_options(&show.options, argc, argv);

	if (status >= 0)
		return status;
	out_init(&out, STDOUT_FILENO);
	rows_begin(&show.rows, &out, ROWS_JSON_LINES);
	status = trail_view_open(&show.view, show.options.dir, &show.options.image);
	if (status == CLI_FINE)
		status = prepare(&show);
	if (status == CLI_FINE) {
		err = ways[show.options.way](&show);
		out_flush(&out);
		err = err ? err : out.error;
		if (err && err != -EPIPE) /* the reader has closed the pipe */
			status = complain(err,
					  err == -WM_E_NOT_RECORDED ? LINES_LACKING ": %s" : "%s",
					  out.error ? "standard output" : show.options.dir);
		/* branches and instructions show what was lost between them */
		if (!err)
			trail_complain_missing(&show.view, &show.options.wanted,
					       show.options.way != WAY_BRANCHES &&
						       show.options.way != WAY_INSTRUCTIONS);
	}
	instruction_format_close(show.format);
	return trail_view_close(&show.view, status);
}
