/* SPDX-License-Identifier: MIT */
/* A sink (sink.h) that writes all it is given into a trace. */
#ifndef RECORD_TRAIL_TRACE_SINK_H
#define RECORD_TRAIL_TRACE_SINK_H

#include "record/trail/sink.h"
#include "trace/trail/write.h"

struct files_thread;

struct trail_files {
	struct trail_sink sink;
	struct trace_writer *writer;
	int process; /* the writer's; -1 before begin() */
	struct trail_writer trail;
	struct files_thread *threads; /* that have begun and not ended */
};

/* `writer` is the caller's and must live longer. Release after all threads have ended. */
void trail_files_init(struct trail_files *files, struct trace_writer *writer);

/* In begin()'s place, of a process that may be gone already: a child. */
int trail_files_begin(struct trail_files *files, const struct sink_process *process);

/*
 * Write all that came so far to the folder: should we be killed, that much is there. 0 or a
 * negative error.
 */
int trail_files_flush(struct trail_files *files);
void trail_files_release(struct trail_files *files);

#endif
