/* SPDX-License-Identifier: MIT */
/*
 * The threads that have a trail according to the trace (trail:thread of abi/trail.h), and which of
 * these trails are missing. One thread at a time uses it.
 */
#ifndef TRACE_TRAIL_TOLD_H
#define TRACE_TRAIL_TOLD_H

#include "trace/reader.h"

#include <stddef.h>
#include <stdint.h>

struct trail_told_thread {
	uint32_t process; /* which of the reader's metadata's */
	uint32_t tid;
	uint64_t blocks;      /* of its trails that are over */
	uint64_t begun, over; /* trails */
	const char *file;     /* that lists it */
	int is_missing;	      /* it has no stream */
};

struct trail_told {
	struct trail_told_thread
		*all; /* by process and tid, each once; while they are read: as they come */
	size_t count, room;
};

/* Take in an event, of a stream of that process. 0 or -ENOMEM. */
int trail_told_add(struct trail_told *told, const struct trace_stream *stream, uint32_t tid,
		   int is_over, uint64_t blocks);

/* All was taken in. */
void trail_told_settle(struct trail_told *told, const struct trace_reader *reader);

/* The entry of a thread, or NULL. */
const struct trail_told_thread *trail_told_find(const struct trail_told *told, uint32_t process,
						uint32_t tid);
void trail_told_release(struct trail_told *told);

#endif
