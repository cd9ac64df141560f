/* SPDX-License-Identifier: MIT */
/*
 * waymark export: the trails, samples or events of a trace in a form that another tool reads.
 */
#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/damage.h"
#include "cli/output.h"
#include "cli/pulse.h"
#include "cli/trail_view.h"
#include "read/export/export.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define EVENTS_SHOWN 20

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
static const char *const weights[] = { "instructions", "blocks", "period", "samples", NULL };

/* By place in format_names. */
static const struct {
	int (*write)(struct export *export); /* NULL: it is made of all events, not of trails */
	int (*write_samples)(struct export_samples *export); /* NULL: not of samples */
} formats[] = {
	{ export_folded, export_samples_folded },
	{ export_perf_script, NULL },
	{ export_speedscope, export_samples_speedscope },
	{ NULL, NULL },
};

struct export_options {
	const char *dir, *output;   /* the latter NULL: stdout */
	unsigned int format;	    /* its place in format_names, + 1; 0: not given */
	const char *weight, *event; /* NULL: not given */
	struct trail_wanted wanted;
	struct image_options image;
};

/* ---- the command line ---- */

static const struct command_option table[] = {
	{ "format", 0, COMMAND_WORD, COMMAND_TO(export_options, format), .min = 1,
	  .words = format_names },
	{ "output", 'o', COMMAND_TEXT, COMMAND_TO(export_options, output) },
	{ "weight", 0, COMMAND_WORD, COMMAND_TO(export_options, weight), .words = weights },
	{ "event", 0, COMMAND_TEXT, COMMAND_TO(export_options, event) },
	TRAIL_WANTED_ROWS(export_options, wanted),
	{ "root", 0, COMMAND_TEXT, COMMAND_TO(export_options, image.root) },
	{ "no-parameters", 0, COMMAND_FLAG, COMMAND_TO(export_options, image.with_parameters) },
	{ .name = NULL },
};

static const struct command_line line = { "export", usage, table, 0 };

/* Whether an option was given that only trails have. */
static int is_of_trail(const struct export_options *options)
{
	return options->weight || options->event || options->wanted.bounds.from_text ||
	       options->wanted.bounds.to_text || options->image.root ||
	       !options->image.with_parameters;
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
	if (!options->format)
		return complain_usage(
			"export",
			"say which form: --format=folded, perf-script, speedscope or perfetto");
	if (!formats[options->format - 1].write && is_of_trail(options))
		return complain_usage("export", "--format=perfetto takes only -o, --tid and --pid");
	return command_line_folder(&line, argc, argv, &options->dir);
}

/* What only trails have, or only samples. CLI_FINE, or what was said. */
static int check_kind(const struct export_options *options, int are_samples)
{
	int is_of_samples = options->weight && (*options->weight == 'p' || *options->weight == 's');

	if (options->weight && is_of_samples != are_samples)
		return complain_usage("export", "--weight %s is not for %s", options->weight,
				      are_samples ? "samples" : "trails");
	if (are_samples && (options->wanted.bounds.from_text || options->wanted.bounds.to_text))
		return complain_usage("export", "--from and --to are for trails, not for samples");
	if (are_samples && !formats[options->format - 1].write_samples)
		return complain_usage("export", "--format=%s is for trails, not for samples",
				      format_names[options->format - 1]);
	return CLI_FINE;
}

/* Write what `write` makes of `of`, to the file or stdout. CLI_FINE, or what was said. */
static int export_write(const struct export_options *options, void *of,
			int (*write)(struct out *out, const struct export_options *options,
				     void *of))
{
	struct output output = { .fd = STDOUT_FILENO };
	static struct out out;
	int err = options->output ? output_open(&output, options->output) : 0, status = CLI_FINE;

	if (err)
		return complain(err, "%s", options->output);
	out_init(&out, output.fd);
	err = write(&out, options, of);
	pulse_end();
	if (!err)
		err = out_flush(&out);
	if (err == -WM_E_NOT_RECORDED)
		status = complain(err, "a sample of that process or thread: %s", options->dir);
	else if (err && err != -EPIPE) /* the reader has closed the pipe */
		status = complain(err, "%s",
				  !out.error	    ? options->dir
				  : options->output ? options->output
						    : "standard output");
	if (!options->output)
		return status;
	err = output_close(&output, status != CLI_FINE);
	return err && status == CLI_FINE ? complain(err, "%s", options->output) : status;
}

/* ---- trails ---- */

static void progress(struct export *export, uint64_t blocks)
{
	uint64_t all = 0;

	if (!pulse_is_due())
		return;
	for (size_t i = 0; i < export->thread_count; i++)
		all += export->threads[i].range.end;
	pulse_show("exporting", blocks, all);
}

/* The threads that are wanted. 0 or -ENOMEM. */
static int threads_gather(struct export *export, const struct export_options *options,
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

		if (!trail_wants(&options->wanted, path->stream))
			continue;
		if (!process->image) {
			process->pid = path->stream->pid;
			process->image = trail_view_image(view, path);
			if (!process->image || functions_open(&process->functions, process->image))
				return -ENOMEM;
		}
		*thread = (struct export_thread){ .path = path, .process = path->stream->process };
		trail_bounds_range(&options->wanted.bounds, view, path, &thread->range);
		export->thread_count++;
	}
	return 0;
}

static int trails_write(struct out *out, const struct export_options *options, void *of)
{
	struct trail_view *view = of;
	struct export export = { .out = out,
				 .name = options->dir,
				 .pulse = progress,
				 .weight = options->weight && *options->weight == 'b'
						   ? EXPORT_BLOCKS
						   : EXPORT_INSTRUCTIONS };
	int err = threads_gather(&export, options, view);

	if (!err)
		err = formats[options->format - 1].write(&export);
	for (size_t i = 0; export.processes && i < export.process_count; i++)
		functions_close(&export.processes[i].functions);
	free(export.processes);
	free(export.threads);
	return err;
}

static int export_trails(struct export_options *options)
{
	struct trail_view view;
	int status = trail_view_open(&view, options->dir, &options->image);

	if (status == CLI_FINE)
		status = trail_bounds_find(&options->wanted.bounds, "export", &view);
	if (status == CLI_FINE && !trail_view_count(&view, &options->wanted))
		status = complain(-WM_E_NOT_RECORDED, "a trail of that process or thread: %s",
				  options->dir);
	if (status == CLI_FINE) {
		status = export_write(options, &view, trails_write);
		if (status == CLI_FINE)
			trail_complain_missing(&view, &options->wanted, 1);
	}
	return trail_view_close(&view, status);
}

/* ---- samples ---- */

/*
 * Whether samples are meant and not trails: --event says so, or the trace has no trail. An error
 * is left for the next reader.
 */
static int are_samples_meant(const struct export_options *options)
{
	struct trace_reader *reader;
	struct trails trails;
	int are_meant = options->event != NULL;

	if (are_meant || trace_reader_open(&reader, options->dir))
		return are_meant;
	if (samples_are_in(reader)) {
		are_meant = !trails_read(&trails, reader) && !trails.path_count;
		trails_release(&trails, reader);
	}
	trace_reader_close(reader);
	return are_meant;
}

/*
 * The one event that is meant: what --event names, else the only one, else the only sample:NAME.
 * Weights of different events have no common unit. CLI_FINE, or what was said.
 */
static int event_choose(struct export_options *options, const struct trace_reader *reader)
{
	const char *names[EVENTS_SHOWN], *only = NULL;
	size_t count = samples_events(reader, options->event, names, EVENTS_SHOWN);
	size_t samples = 0;

	if (!count)
		return complain(-WM_E_NOT_RECORDED, "samples%s%s: %s", options->event ? " of " : "",
				options->event ? options->event : "", options->dir);
	for (size_t i = 0; i < count && i < EVENTS_SHOWN; i++)
		if (!strncmp(names[i], "sample:", 7) && !samples++)
			only = names[i];
	if (count == 1)
		only = names[0];
	else if (samples != 1)
		only = NULL;
	options->event = only ? only : options->event;
	if (only)
		return CLI_FINE;
	complain_usage("export", "say which event with --event: each has a unit of its own");
	for (size_t i = 0; i < count && i < EVENTS_SHOWN; i++)
		complain_words(i ? ", %s" : "  the trace has %s", names[i]);
	fputc('\n', stderr);
	return CLI_USAGE;
}

static int samples_write(struct out *out, const struct export_options *options, void *of)
{
	struct samples *samples = of;
	struct export_samples export = { .out = out,
					 .name = options->dir,
					 .samples = samples,
					 .is_counted = options->weight && *options->weight == 's' };
	int err = formats[options->format - 1].write_samples(&export);

	return err || samples->sum_count ? err : -WM_E_NOT_RECORDED;
}

static int export_samples(struct export_options *options)
{
	struct samples_options wanted = { .pid = options->wanted.pid,
					  .tid = options->wanted.tid,
					  .wants_trails = 1,
					  .beat = pulse_beat };
	struct trace_reader *reader;
	struct samples samples = { 0 };
	struct images images;
	int err = trace_reader_open(&reader, options->dir), status;

	if (err)
		return complain(err, "%s", options->dir);
	status = event_choose(options, reader);
	if (status == CLI_FINE) {
		wanted.event = options->event;
		err = images_open(&images, reader, &options->image);
		if (!err)
			err = samples_open(&samples, &images, &wanted);
		status = err ? complain(err, "%s", options->dir)
			     : export_write(options, &samples, samples_write);
		fflush(stdout);
		trail_complain_names(&images);
		samples_close(&samples);
		images_close(&images);
	}
	if (damage_complain(reader, options->dir) != CLI_FINE && status == CLI_FINE)
		status = CLI_FAILED;
	trace_reader_close(reader);
	return status;
}

/* ---- all events ---- */

static int events_write(struct out *out, const struct export_options *options, void *of)
{
	return export_perfetto(out, of, options->wanted.tid, options->wanted.pid);
}

static int export_events(const struct export_options *options)
{
	struct trace_reader *reader;
	int err = trace_reader_open(&reader, options->dir), status;

	if (err)
		return complain(err, "%s", options->dir);
	status = export_write(options, reader, events_write);
	if (status == CLI_FINE)
		status = damage_complain(reader, options->dir);
	trace_reader_close(reader);
	return status;
}

int cmd_export(int argc, char **argv)
{
	struct export_options options;
	int are_samples, status = read_options(&options, argc, argv);

	if (status >= 0)
		return status;
	if (!formats[options.format - 1].write)
		return export_events(&options);
	are_samples = are_samples_meant(&options);
	status = check_kind(&options, are_samples);
	if (status != CLI_FINE)
		return status;
	return are_samples ? export_samples(&options) : export_trails(&options);
}
