/* SPDX-License-Identifier: MIT */
/* What `waymark top` prints of an interval: tables, or a JSON object. */
#ifndef CLI_TOP_SHOW_H
#define CLI_TOP_SHOW_H

#include "base/text_buffer.h"
#include "cli/sums_lines.h"
#include "cli/top_count.h"
#include "cli/top_symbols.h"

#include <stddef.h>
#include <sys/types.h>
#include <stdint.h>

enum top_section {
	TOP_ALL,
	TOP_EVENTS,
	TOP_SPANS,
	TOP_SUMS,
	TOP_FUNCTIONS,
	TOP_THREADS,
	TOP_SECTIONS,
};

struct top_view {
	const char *what;     /* is shown: a process, a program, CPUs */
	const char *left_out; /* which default events, and why; "" */
	const struct top_count *count;
	const struct top_function *functions;
	size_t function_count;
	const struct sums_lines *sums; /* sorted; NULL: none */
	double at_s, seconds;	       /* since the begin; the interval's own length */
	uint64_t lost, lost_ever;      /* events */
	uint32_t processes;
	int is_last;
	int has_times_alone; /* threads are by their schedstat: nothing is known of switches */

	enum top_section section;
	unsigned int lines, columns; /* of a terminal; 0: as many as there are */
	size_t row_max;		     /* of each table; 0: as many as there are */

	/* sorted, from here on: top_view_sort() */
	const struct top_event **events;
	const struct top_span **spans;
	const struct top_thread **threads;
	size_t event_count, span_count, thread_count;
};

/* Sort what there is. 0 or -ENOMEM. Release also after an error. */
int top_view_sort(struct top_view *view);
void top_view_release(struct top_view *view);

/* Before a line of the text: the first line, and the head of a table. */
#define TOP_MARK_TITLE '\1'
#define TOP_MARK_HEAD '\2'

/* The tables, in lines. */
void top_show(const struct top_view *view, struct text *text);

/* The same as one line of JSON, on a descriptor. 0 or -errno. */
int top_show_json(const struct top_view *view,
		  ssize_t (*write)(int fd, const void *bytes, size_t count));

/* A thread's part of the interval in a state, in percent. */
double top_thread_percent(const struct top_view *view, const struct top_thread *thread,
			  enum top_state state);

#endif
