/* SPDX-License-Identifier: MIT */
/*
 * Events in order, as lines to print: the begin and the end of a call are one line, at the begin's
 * place. A line waits until those before it are complete, and no longer than CALL_LINES_MAX lines
 * come after it: a call that takes longer has two lines.
 */
#ifndef CLI_CALL_LINES_H
#define CLI_CALL_LINES_H

#include "base/slots.h"
#include "read/pass/merge.h"

#include <stddef.h>
#include <stdint.h>

#define CALL_LINES_MAX 4096u

enum call_line_kind {
	LINE_EVENT,
	LINE_CALL,   /* event: the begin */
	LINE_RETURN, /* event: the end of a call whose begin is no part of this line */
};

struct call_line {
	enum call_line_kind kind;
	struct merge_event *event; /* a copy */
	struct merge_event *end;   /* of a LINE_CALL; NULL: it is not near, or did not come */
	uint64_t begin_ns;	   /* of a LINE_RETURN; 0: unknown */
	int waits;		   /* for its end */
};

struct call_thread;

/* Zeroed: empty. Freed with call_lines_release(). */
struct call_lines {
	struct call_line *ring; /* CALL_LINES_MAX */
	uint64_t first, end;	/* numbers of lines: those from first on are in the ring */
	struct call_line shown; /* the last of call_lines_next() */
	struct call_thread *threads;
	size_t thread_count, thread_room;
	struct slots slots; /* of threads, by their ids */
};

/*
 * Add a copy of an event; with is_call, one of kind 'b' or 'e'. While call_lines_next() has more,
 * no other may be added. 0 or -ENOMEM.
 */
int call_lines_add(struct call_lines *lines, const struct merge_event *event, int is_call);

/* The calls of a thread that are open get no end: events of it are missing. */
void call_lines_forget(struct call_lines *lines, uint32_t pid, uint32_t tid);

/*
 * The next line that waits for nothing, or after the last event, with is_last, any. Valid until the
 * next call. 1 or 0.
 */
int call_lines_next(struct call_lines *lines, int is_last, struct call_line *line);

static inline int call_lines_is_empty(const struct call_lines *lines)
{
	return lines->first == lines->end;
}

void call_lines_release(struct call_lines *lines);

#endif
