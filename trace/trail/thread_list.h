/* SPDX-License-Identifier: MIT */
/*
 * The threads that have a trail according to the trace (trail:thread of abi/trail.h), and which of
 * these trails are missing. One thread at a time uses it.
 */
#ifndef TRACE_TRAIL_THREAD_LIST_H
#define TRACE_TRAIL_THREAD_LIST_H

#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

struct trail_thread_entry {
	uint32_t process; /* which of the reader's facts' */
	uint32_t tid;
	uint64_t blocks;      /* of its trails that are over */
	uint64_t begun, over; /* trails */
	const char *file;     /* that lists it */
	int is_missing;	      /* it has no stream */
};

struct trail_threads {
	struct trail_thread_entry
		*all; /* by process and tid, each once; while they are read: as they come */
	size_t count, room;
};

/* Take in an event, of a stream of that process. 0 or -ENOMEM. */
int trail_threads_add(struct trail_threads *threads, const struct trace_stream *stream,
		      uint32_t tid, int is_over, uint64_t blocks);

/* All was taken in. */
void trail_threads_settle(struct trail_threads *threads, const struct trace_reader *reader);

/* The entry of a thread, or NULL. */
const struct trail_thread_entry *trail_threads_find(const struct trail_threads *threads,
						    uint32_t process, uint32_t tid);
void trail_threads_release(struct trail_threads *threads);

#endif
