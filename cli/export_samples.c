/* SPDX-License-Identifier: MIT */
#include "cli/export_samples.h"

#include "cli/cli.h"
#include "cli/damage.h"
#include "cli/output.h"
#include "cli/pulse.h"
#include "cli/trail_view.h"
#include "trace/trail/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

#define EVENTS_SHOWN 20

int export_samples_are_meant(const struct export_samples_options *options)
{
	struct trace_reader *reader;
	struct trails trails;
	int are_meant = options->samples.event != NULL;

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
static int event_choose(struct export_samples_options *options, const struct trace_reader *reader)
{
	const char *names[EVENTS_SHOWN], *only = NULL;
	size_t count = samples_events(reader, options->samples.event, names, EVENTS_SHOWN);
	size_t samples = 0;

	if (!count)
		return complain(-WM_E_NOT_RECORDED, "samples%s%s: %s",
				options->samples.event ? " of " : "",
				options->samples.event ? options->samples.event : "", options->dir);
	for (size_t i = 0; i < count && i < EVENTS_SHOWN; i++)
		if (!strncmp(names[i], "sample:", 7) && !samples++)
			only = names[i];
	if (count == 1)
		only = names[0];
	else if (samples != 1)
		only = NULL;
	options->samples.event = only ? only : options->samples.event;
	if (only)
		return CLI_FINE;
	complain_usage("export", "say which event with --event: each has a unit of its own");
	for (size_t i = 0; i < count && i < EVENTS_SHOWN; i++)
		complain_words(i ? ", %s" : "  the trace has %s", names[i]);
	fputc('\n', stderr);
	return CLI_USAGE;
}

static int write_to(int fd, struct export_samples_options *options, struct samples *samples)
{
	static struct out out;
	struct export_samples export = { .out = &out,
					 .name = options->dir,
					 .samples = samples,
					 .is_counted = options->is_counted };
	int err;

	out_init(&out, fd);
	err = options->write(&export);
	pulse_end();
	if (!err && !samples->sum_count)
		return complain(-WM_E_NOT_RECORDED, "a sample of that process or thread: %s",
				options->dir);
	out_flush(&out);
	err = err ? err : out.error;
	if (!err || err == -EPIPE) /* the reader has closed the pipe */
		return CLI_FINE;
	return complain(err, "%s",
			!out.error	  ? options->dir
			: options->output ? options->output
					  : "standard output");
}

static int write_file(struct export_samples_options *options, struct samples *samples)
{
	struct output output;
	int err = output_open(&output, options->output), status;

	if (err)
		return complain(err, "%s", options->output);
	status = write_to(output.fd, options, samples);
	err = output_close(&output, status != CLI_FINE);
	return err && status == CLI_FINE ? complain(err, "%s", options->output) : status;
}

int export_samples_command(struct export_samples_options *options)
{
	struct trace_reader *reader;
	struct samples samples = { 0 };
	struct images images;
	int err = trace_reader_open(&reader, options->dir), status;

	if (err)
		return complain(err, "%s", options->dir);
	status = event_choose(options, reader);
	if (status == CLI_FINE) {
		options->samples.wants_trails = 1;
		options->samples.beat = pulse_beat;
		err = images_open(&images, reader, &options->image);
		if (!err)
			err = samples_open(&samples, &images, &options->samples);
		status = err		   ? complain(err, "%s", options->dir)
			 : options->output ? write_file(options, &samples)
					   : write_to(STDOUT_FILENO, options, &samples);
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
