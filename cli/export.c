/* SPDX-License-Identifier: MIT */
/*
 * waymark export: the trails of a trace in a form that another tool reads.
 */
#include "cli/export_samples.h"
#include "read/export/export.h"

#include "base/quantity.h"
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "cli/export_perfetto.h"
#include "cli/output.h"
#include "cli/trail_bounds.h"
#include "cli/trail_lost.h"
#include "cli/trail_view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static const char usage[] =
	"Usage: waymark export --format=FORMAT [OPTION]... DIR\n"
	"Convert the trace in DIR for other tools: the branches of its threads, its samples or\n"
	"its events.\n"
	"\n"
	"  --format FORMAT  folded       stacks and what ran in them, for flamegraph.pl\n"
	"                   perf-script  branch stacks, for llvm-profgen\n"
	"                   speedscope   calls as they came and went, for speedscope.app\n"
	"                   perfetto     events, and what ran on each CPU, for ui.perfetto.dev\n"
	"                                (takes -o, --tid and --pid)\n"
	"  -o, --output FILE  write there (default: stdout, -)\n"
	"  --event NAME   folded, speedscope: the samples of this event, also of a trace with\n"
	"                 trails; without trails they are the default\n"
	"  --weight WHAT  count instructions (default) or blocks; of samples, period (default)\n"
	"                 or samples\n"
	"  --tid T        only this thread\n"
	"  --pid P        only this process\n" TRAIL_BOUNDS_HELP
	"  --no-parameters  name functions without parameters: f, and not f(int)\n"
	"  --root DIR     find the program's files below DIR, as they were on another machine\n"
	"  -h, --help     this\n";

static const char *const format_names[] = { "folded", "perf-script", "speedscope", "perfetto",
					    NULL };

/* In the order of their names. */
static const struct export_format {
	int (*write)(struct export *export); /* NULL: it is made of all events, not of trails */
	int (*write_samples)(struct export_samples *export); /* NULL: not of samples */
} formats[] = {
	{ export_folded, export_samples_folded },
	{ export_perf_script, NULL },
	{ export_speedscope, export_samples_speedscope },
	{ NULL, NULL },
};

struct export_options {
	const char *dir, *output; /* the latter NULL: stdout */
	const struct export_format *format;
	uint32_t format_number;	    /* from 1; 0: not given */
	const char *weight, *event; /* NULL: not given */
	uint32_t tid, pid;	    /* 0: all */
	struct trail_bounds bounds;
	struct image_options image;
};

/* ---- the command line ---- */

static const char *const weights[] = { "instructions", "blocks", "period", "samples", NULL };

static const struct command_option table[] = {
	{ "format", 0, COMMAND_WORD, COMMAND_TO(export_options, format_number), .min = 1,
	  .words = format_names },
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(export_options, output) },
	{ "weight", 0, COMMAND_WORD, COMMAND_TO(export_options, weight), .words = weights },
	{ "event", 0, COMMAND_TEXT, COMMAND_TO(export_options, event) },
	{ "tid", 0, COMMAND_ID, COMMAND_TO(export_options, tid) },
	{ "pid", 0, COMMAND_ID, COMMAND_TO(export_options, pid) },
	TRAIL_BOUNDS_ROWS(export_options),
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(export_options, image.root) },
	{ "no-parameters", 0, COMMAND_FLAG, COMMAND_TO(export_options, image.with_parameters) },
	{ .name = NULL },
};

static const struct command_line line = { "export", usage, table, 0 };

/* Whether an option was given that only trails have. */
static int is_of_trail(const struct export_options *options)
{
	return options->weight || options->event || options->bounds.from_text ||
	       options->bounds.to_text || options->image.root || !options->image.with_parameters;
}

/* -1 to continue, else the exit status. */
static int read_options(struct export_options *options, int argc, char **argv)
{
	int status;

	*options = (struct export_options){ .image.with_parameters = 1 };
	status = command_line_read(&line, argc, argv, options);
	if (status >= 0)
		return status;
	if (options->output && !strcmp(options->output, "-"))
		options->output = NULL;
	if (!options->format_number)
		return complain_usage(
			"export",
			"say which form: --format=folded, perf-script, speedscope or perfetto");
	options->format = &formats[options->format_number - 1];
	if (!options->format->write && is_of_trail(options))
		return complain_usage("export", "--format=perfetto takes only -o, --tid and --pid");
	return command_line_folder(&line, argc, argv, &options->dir);
}

/* ---- the work ---- */

static void progress(struct export *export, uint64_t blocks)
{
	uint64_t all = 0;
	char done[32], of[32];

	for (size_t i = 0; i < export->thread_count; i++)
		all += export->threads[i].range.end;
	fprintf(stderr, "\rexporting %s of %s blocks\33[K",
		quantity_show_count(blocks, done, sizeof(done)),
		quantity_show_count(all, of, sizeof(of)));
}

static int is_wanted(const struct export_options *options, const struct trail_path *path)
{
	return (!options->tid || path->stream->tid == options->tid) &&
	       (!options->pid || path->stream->pid == options->pid);
}

/* Before anything is written over: whether there are threads. */
static int check(const struct export_options *options, const struct trail_view *view)
{
	for (size_t i = 0; i < view->trails.path_count; i++)
		if (is_wanted(options, &view->trails.paths[i]))
			return CLI_FINE;
	return complain(-WM_E_NOT_RECORDED, "a trail of that process or thread: %s", options->dir);
}

/* The threads that are wanted. 0 or -ENOMEM. */
static int gather(struct export *export, const struct export_options *options,
		  struct trail_view *view)
{
	export->threads = calloc(view->trails.path_count + 1, sizeof(*export->threads));
	export->process_count = view->reader->meta.process_count;
	export->processes = calloc(export->process_count + 1, sizeof(*export->processes));
	if (!export->threads || !export->processes)
		return -ENOMEM;
	for (size_t i = 0; i < view->trails.path_count; i++) {
		const struct trail_path *path = &view->trails.paths[i];
		struct export_process *process = &export->processes[path->stream->process];
		struct export_thread *thread = &export->threads[export->thread_count];

		if (!is_wanted(options, path))
			continue;
		if (!process->image) {
			process->pid = path->stream->pid;
			process->image = trail_view_image(view, path);
			if (!process->image || functions_open(&process->functions, process->image))
				return -ENOMEM;
		}
		*thread = (struct export_thread){ .path = path, .process = path->stream->process };
		trail_bounds_range(&options->bounds, view, path, &thread->range);
		export->thread_count++;
	}
	return 0;
}

static void release(struct export *export)
{
	for (size_t i = 0; export->processes && i < export->process_count; i++)
		functions_close(&export->processes[i].functions);
	free(export->processes);
	free(export->threads);
}

/* Write to a descriptor. CLI_FINE, or what was said. */
static int export_to(int fd, const struct export_options *options, struct trail_view *view)
{
	static struct out out;
	struct export export = { .out = &out,
				 .name = options->dir,
				 .weight = options->weight && *options->weight == 'b'
						   ? EXPORT_BLOCKS
						   : EXPORT_INSTRUCTIONS };
	int err, is_shown = isatty(STDERR_FILENO);

	out_init(&out, fd);
	if (is_shown)
		export.pulse = progress;
	err = gather(&export, options, view);
	if (!err)
		err = options->format->write(&export);
	release(&export);
	out_flush(&out);
	if (is_shown && export.reported)
		fputs("\r\33[K", stderr);
	err = err ? err : out.error;
	if (!err)
		trail_complain_lost(view, &(struct trail_lost_wanted){ options->tid, options->pid,
								       &options->bounds });
	if (err == -EPIPE) /* the reader has closed the pipe */
		err = 0;
	return err ? complain(err, "%s",
			      !out.error	? options->dir
			      : options->output ? options->output
						: "standard output")
		   : CLI_FINE;
}

/* Write all events to a descriptor. CLI_FINE, or what was said. */
static int export_events_to(int fd, const struct export_options *options,
			    struct trace_reader *reader)
{
	static struct out out;
	int err;

	out_init(&out, fd);
	err = export_perfetto(&out, reader, options->tid, options->pid);
	out_flush(&out);
	err = err ? err : out.error;
	if (err && err != -EPIPE)
		return complain(err, "%s",
				!out.error	  ? options->dir
				: options->output ? options->output
						  : "standard output");
	return damage_complain(reader, options->dir);
}

/* Of the trails, or with no view of the events. */
static int export_one(int fd, const struct export_options *options, struct trail_view *view,
		      struct trace_reader *reader)
{
	return view ? export_to(fd, options, view) : export_events_to(fd, options, reader);
}

static int export_file(const struct export_options *options, struct trail_view *view,
		       struct trace_reader *reader)
{
	struct output output;
	int err, status;

	if (!options->output)
		return export_one(STDOUT_FILENO, options, view, reader);
	err = output_open(&output, options->output);
	if (err)
		return complain(err, "%s", options->output);
	status = export_one(output.fd, options, view, reader);
	err = output_close(&output, status != CLI_FINE);
	if (err && status == CLI_FINE)
		status = complain(err, "%s", options->output);
	return status;
}

static int export_events(const struct export_options *options)
{
	struct trace_reader *reader;
	int err = trace_reader_open(&reader, options->dir), status;

	if (err)
		return complain(err, "%s", options->dir);
	status = export_file(options, NULL, reader);
	trace_reader_close(reader);
	return status;
}

/* What only trails have, or only samples. CLI_FINE, or what was said. */
static int check_kind(const struct export_options *options, int are_samples)
{
	int is_of_samples = options->weight && (*options->weight == 'p' || *options->weight == 's');

	if (options->weight && is_of_samples != are_samples)
		return complain_usage("export", "--weight %s is not for %s", options->weight,
				      are_samples ? "samples" : "trails");
	if (are_samples && (options->bounds.from_text || options->bounds.to_text))
		return complain_usage("export", "--from and --to are for trails, not for samples");
	if (are_samples && !options->format->write_samples)
		return complain_usage("export", "--format=%s is for trails, not for samples",
				      format_names[options->format_number - 1]);
	return CLI_FINE;
}

static int export_trails(struct export_options *options)
{
	struct trail_view view;
	int status = trail_view_open(&view, options->dir, &options->image);

	if (status == CLI_FINE)
		status = trail_bounds_find(&options->bounds, "export", &view);
	if (status == CLI_FINE)
		status = check(options, &view);
	if (status == CLI_FINE)
		status = export_file(options, &view, NULL);
	return trail_view_close(&view, status);
}

int cmd_export(int argc, char **argv)
{
	struct export_options options;
	struct export_samples_options samples;
	int are_samples, status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	if (!options.format->write)
		return export_events(&options);
	samples = (struct export_samples_options){
		.dir = options.dir,
		.output = options.output,
		.write = options.format->write_samples,
		.is_counted = options.weight && *options.weight == 's',
		.samples = { .event = options.event, .pid = options.pid, .tid = options.tid },
		.image = options.image,
	};
	are_samples = export_samples_are_meant(&samples);
	status = check_kind(&options, are_samples);
	if (status != CLI_FINE)
		return status;
	return are_samples ? export_samples_command(&samples) : export_trails(&options);
}
