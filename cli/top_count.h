/* SPDX-License-Identifier: MIT */
/*
 * What `waymark top` counts between two tables: events by name, spans by time, samples by address,
 * threads by state. It takes events as wm_session_read() hands them over, and knows no session, no
 * /proc and no terminal.
 *
 * All of it is bounded: what comes after TOP_ROWS_MAX names, threads or addresses is summed up as
 * "others". What had nothing in an interval makes room when a list is full. One thread at a time.
 */
#ifndef CLI_TOP_COUNT_H
#define CLI_TOP_COUNT_H

#include "cli/top_threads.h"
#include "read/pass/summary.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

#define TOP_ROWS_MAX 10000u
#define TOP_SPANS_MAX 1000u /* each has a histogram of 15 KiB */
#define TOP_OPEN_MAX 64u    /* open spans of a thread; the oldest is forgotten */

struct top_event {
	char *name;
	uint64_t count; /* in the interval; of "count:NAME" by how much that grew */
	int is_grown;	/* it is such a count: no part of all events */
};

struct top_span {
	char *name;
	uint64_t open;		/* begun and not yet ended */
	uint64_t sum_ns;	/* of times */
	struct histogram times; /* of those that ended in the interval, in ns */
};

struct top_address {
	uint64_t ip, samples; /* samples 0: a free place */
	uint32_t pid;
};

struct top_count {
	struct top_event *events;
	size_t event_count;
	struct top_span **spans;
	size_t span_count;
	struct top_address *addresses; /* TOP_ADDRESS_ROOM places, open addressing */
	size_t address_count;
	struct top_threads threads;

	/* of the interval */
	uint64_t event_total;  /* of all names, spans' begins and ends not among them */
	uint64_t other_events; /* of those, of names that had no room */
	uint64_t other_spans;  /* ended, and their names or threads had no room */
	uint64_t sample_total, other_samples;
	uint64_t kernel_lost, throttled;
	int has_switches, has_kernel; /* the caller's: switches, any kernel events are recorded */
	int has_wakes;		      /* the kernel has reported a wake */

	struct top_name *names; /* what is known of an event's id */
	size_t name_room;
	struct top_spanning *spanning; /* threads with open spans */
	size_t spanning_count, spanning_at;
};

/* A place for twice as many as are taken in. */
#define TOP_ADDRESS_ROOM 32768u

/* Zeroed before: 0 or -ENOMEM. Release also after an error. */
int top_count_init(struct top_count *count);
void top_count_release(struct top_count *count);

/* What an event was. */
enum top_kind {
	TOP_NEW,
	TOP_PLAIN,
	TOP_SUM, /* a row of sums: no event */
	TOP_BEGIN,
	TOP_END,
	TOP_SAMPLE,
	TOP_COUNT,
	TOP_DEPART,
	TOP_ARRIVE,
	TOP_WAKE,
	TOP_RUNNABLE,
	TOP_NAME,
	TOP_FORK,
	TOP_EXIT,
	TOP_LOST,
	TOP_THROTTLED,
};

/* Count an event. Returns its kind, or -ENOMEM. */
int top_count_take(struct top_count *count, const struct wm_event *event);

/*
 * Events were lost: ends of spans may be among them. Forget those that are open, since the next end
 * of that name may be of another.
 */
void top_count_gap(struct top_count *count);

/* The interval is over, and was shown: begin the next. */
void top_count_next(struct top_count *count);

#endif
