/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/steps.h"

#include "record/trail/testing/step_launch.h"
#include "record/trail/trace_sink.h"
#include "trace/testing/packets.h"

#include <stdlib.h>

static void must(int fine)
{
	if (!fine)
		abort();
}

int sample_steps(char folder[64], char *const argv[])
{
	struct trace_writer *writer;
	struct trail_files files;
	struct tracing_result result;
	struct step *step;
	int err;

	sample_folder(folder);
	must(!trace_writer_open(&writer, folder));
	trail_files_init(&files, writer);
	must(!step_launch(&step, &files.sink, argv[0], argv));
	while ((err = step_run(step, 1000)) > 0)
		;
	step_result(step, &result);
	must(!err && result.is_over);
	must(!step_close(step));
	trail_files_release(&files);
	must(!trace_writer_close(writer));
	return result.status;
}
