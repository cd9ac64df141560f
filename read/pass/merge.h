/* SPDX-License-Identifier: MIT */
/*
 * All events of a trace in order of time. Events of one stream keep their order; those of one
 * nanosecond come in the order of the reader's streams.
 */
#ifndef READ_PASS_MERGE_H
#define READ_PASS_MERGE_H

#include "trace/reader.h"

#include <stdint.h>

struct merge;

struct merge_event {
	struct trace_stream *stream;
	const struct trace_class *class;
	uint64_t ticks, ns;
	uint32_t pid, tid;	     /* of the thread that the event is about; 0: unknown */
	const uint8_t *fields, *end; /* the event's fields, as in abi/page.h */
	uint64_t lost; /* events of its stream that were discarded since the one before */
	uint64_t missing_packets; /* and packets that are not there */
	int is_after_damage;	  /* and what could not be read is there */
};

/*
 * Begin to read, from events at `from_ns` on (0: from the first). Streams for which `want` returns
 * 0 are left out; NULL takes all. The reader must outlive it. 0 or -ENOMEM.
 */
int merge_open(struct merge **merge, struct trace_reader *reader, uint64_t from_ns,
	       int (*want)(const struct trace_stream *stream, void *data), void *data);

/*
 * The next event; valid until the next call. Returns 1, 0 after the last, or a negative error.
 * Damaged parts are left out and recorded in the reader. An event without a class represents losses
 * at the end of a stream.
 */
int merge_next(struct merge *merge, struct merge_event *event);

/*
 * The same event as live ones are, with typed and named fields in fields[SCHEMA_FIELDS_MAX]. Of one
 * with a class. Both are valid as long as *event's bytes.
 */
void merge_event_make(const struct merge_event *event, struct wm_event *made,
		      struct wm_event_field *fields);

/* NULL is allowed. */
void merge_close(struct merge *merge);

/*
 * One pass over a trace's events, for several observers. Each names the event classes that it
 * needs; streams that no observer needs are not read.
 */
#define PASS_OBSERVERS_MAX 8

/* The first member of what observes. */
struct pass_observer {
	/* Asked before the first event, for each class of each process, by its number. */
	int (*wants)(const struct pass_observer *observer, uint32_t process,
		     const struct trace_class *class);
	/*
	 * An event of such a class; or any event, also without a class, where something is missing
	 * before it in a stream with such classes (pass_is_gap()). 0, or what ends the pass.
	 */
	int (*take)(struct pass_observer *observer, const struct merge_event *event);
};

/* Whether events before this one are lost, missing or damaged. */
static inline int pass_is_gap(const struct merge_event *event)
{
	return !event->class || event->lost || event->missing_packets || event->is_after_damage;
}

/* 0, a negative error, or what an observer returned. */
int pass_read(struct trace_reader *reader, struct pass_observer *const *observers,
	      unsigned int count);

#endif
