/* SPDX-License-Identifier: MIT */
/*
 * Trails made by hand, for tests and fuzzers: a process, its threads one after the other. Failures
 * abort.
 */
#ifndef TRACE_TRAIL_TESTING_TRAIL_H
#define TRACE_TRAIL_TESTING_TRAIL_H

#include "trace/trail/write.h"

#define SAMPLE_TRAIL_BEGIN_NS 1000 /* the trace's first tick */
#define SAMPLE_TRAIL_MARKER 1u	   /* the id of db:query, an event without fields */
#define SAMPLE_TRAIL_FIRST_CLASS 40u
#define SAMPLE_TRAIL_PID 100u

struct sample_trail {
	char folder[64];
	struct trace_writer *writer;
	int process;
	struct trail_writer trail;
	struct trail_thread thread;
	uint64_t now; /* in ticks of a nanosecond */
};

/* Begin a trace, without a thread yet. */
void sample_trail_begin(struct sample_trail *sample);

void sample_trail_module(struct sample_trail *sample, const char *path, uint64_t base,
			 const void *build_id, size_t bytes);
void sample_trail_module_gone(struct sample_trail *sample, const char *path, uint64_t base);

/* A thread's trail begins, gets blocks and events one by one, one tick each, and ends. */
void sample_trail_thread(struct sample_trail *sample, uint32_t tid, const char *comm);
void sample_trail_ran(struct sample_trail *sample, const struct trail_entry *entry,
		      const void *code);
void sample_trail_event(struct sample_trail *sample, enum trail_event event, uint64_t at,
			uint32_t left, uint64_t first, uint64_t second);
void sample_trail_thread_end(struct sample_trail *sample);

/* A marker of the process, db:query, in another thread's stream, at these ticks. */
void sample_trail_marker(struct sample_trail *sample, const uint64_t *ticks, size_t count);

/* All is written. */
void sample_trail_close(struct sample_trail *sample);
void sample_trail_remove(struct sample_trail *sample);

#endif
