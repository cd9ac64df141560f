/* SPDX-License-Identifier: MIT */
/*
 * A stretch of a path: from one bound to another, walked item by item.
 *
 * An event has a time of its own; of a block is known only that it is not later than the time of
 * its part (abi/trail.h). So a stretch between two times never lacks what ran then, but may begin
 * early and end late: it begins with the first item that may be as late as `from`, and ends before
 * the first event later than `to`.
 *
 * Any thread may use a range of its own.
 */
#ifndef TRACE_TRAIL_RANGE_H
#define TRACE_TRAIL_RANGE_H

#include "trace/trail/path.h"

enum trail_bound_kind {
	TRAIL_BOUND_NONE = 0, /* the path's own end */
	TRAIL_BOUND_NS,	      /* a time, as reader_ns() has it */
	/* the block of this index: the first that is in, or the first that is out */
	TRAIL_BOUND_BLOCK,
};

/* Zeroed: none. */
struct trail_bound {
	enum trail_bound_kind kind;
	uint64_t value;
};

struct trail_range {
	struct trail_cursor cursor; /* before the next item */
	size_t end_part;
	uint32_t end_id;
	uint64_t first, end; /* indexes of the blocks that are in it: end - first of them */
};

/* The stretch of a path between bounds. If `to` is before `from` it is empty. */
void trail_range_init(struct trail_range *range, const struct trace_reader *reader,
		      const struct trail_path *path, const struct trail_bound *from,
		      const struct trail_bound *to);

/* Step over an item: 1 and *item, or 0 at the range's end. */
int trail_range_next(struct trail_range *range, struct trail_item *item);

/*
 * The range, before any item was taken, as a path of its own, whose blocks keep their numbers. The
 * caller frees cut->parts; all else is the range's path's, which must live longer. It includes an
 * event that says how much of its last block ran. 0 or -ENOMEM.
 */
int trail_range_cut(const struct trail_range *range, struct trail_path *cut);

/* Of a cursor in what was cut so, that in the path. */
void trail_range_uncut(const struct trail_range *range, struct trail_cursor *cursor);

/* When an item was, on the wall clock: reader_ns() of its ticks. */
uint64_t trail_ns(const struct trace_reader *reader, const struct trail_path *path, uint64_t ticks);

/* The time of an event, as from reader_ns(), and its thread. */
struct trail_moment {
	uint64_t ns;
	uint32_t pid, tid;
};

/*
 * The nth event of a name, counted from 1 in order of time, in all threads of the trace. The name
 * is SUBSYS:EVENT, a span's also without its :begin. 0; -ENOENT if the trace does not know the
 * name; -ERANGE if there are only *count of them, or none; -errno. Streams that are mapped stay so.
 * Not while others read.
 */
int trail_event_find(struct trace_reader *reader, const char *name, uint64_t nth,
		     struct trail_moment *moment, uint64_t *count);

/*
 * An event was written in a handler of SIGTRAP, as a watch's hit is: the index of the block that
 * would come next where that interrupted its thread, exactly. 1; 0: the path is another thread's,
 * or does not have that moment.
 */
int trail_trapped(const struct trace_reader *reader, const struct trail_path *path,
		  const struct trail_moment *moment, uint64_t *block);

#endif
