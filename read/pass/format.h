/* SPDX-License-Identifier: MIT */
/*
 * Events as lines of text, for people:
 *
 *	[HH:MM:SS.nnnnnnnnn] (+S.nnnnnnnnn) comm-TID PID NAME: { field = value, ... }
 *
 * and of JSON, one object a line, for programs:
 *
 *	{"time_ns":N,"pid":N,"tid":N,"comm":"...","name":"...","fields":{"field":value,...}}
 *
 * with "depth" when it is not 0, "cpu" when the kernel recorded it, "names":{"field":"NAME",...}
 * for values that an enumeration names, "cut":["field",...] for what was cut at 4 KiB, and for losses
 * "lost" and "missing_packets" instead of a name and fields. A NULL string is NULL, or null. Text
 * has the name instead of the value.
 *
 * Of an event that the kernel recorded, comm, TID and PID are of the thread that it is about, and
 * "[CPU] " comes before the name; comm is '?', or "", where the trace lacks the thread's name.
 */
#ifndef READ_PASS_FORMAT_H
#define READ_PASS_FORMAT_H

#include "base/out.h"
#include "read/pass/merge.h"
#include "read/pass/thread_names.h"

#include <stdint.h>

struct format_stream {
	uint8_t bytes; /* 0: not made yet */
	char text[63]; /* "comm-TID PID " */
};

struct format {
	const struct trace_reader *reader;
	struct format_stream *streams; /* beside the reader's */
	struct thread_names names;
	uint64_t second; /* that `clock` is for */
	char clock[12];	 /* "[HH:MM:SS." */
	int first;	 /* no line was made yet */
	uint64_t last_ns;
	/* The owner's: put more members into an event's object, each behind a comma. NULL: none. */
	void (*put_members)(struct out *out, const struct merge_event *event, void *data);
	void *data;
};

/* Before the first event is read. 0 or -ENOMEM. Released with format_release(). */
int format_init(struct format *format, struct trace_reader *reader);
void format_release(struct format *format);

/* Put an event's line. What it lost before is a line of its own, put first. */
void format_text(struct format *format, struct out *out, const struct merge_event *event);
void format_json(struct format *format, struct out *out, const struct merge_event *event);

/*
 * Put a call in one line, with its arguments, result and duration. `end`, of the same name, may be
 * NULL: unknown, or format_return() follows.
 *
 *	... NAME(value, ...) = RESULT ERROR <SECONDS>
 *	... NAME(value, ...) <unfinished ...>
 *	... <... NAME resumed> = RESULT ERROR <SECONDS>
 */
void format_call(struct format *format, struct out *out, const struct merge_event *begin,
		 const struct merge_event *end);

/* Put the end of a call that is not in one line with its begin. begin_ns 0: unknown. */
void format_return(struct format *format, struct out *out, const struct merge_event *end,
		   uint64_t begin_ns);

/* Put its fields alone, as the members of an object: "field":value,... */
void format_json_fields(struct out *out, const struct merge_event *event);

/* Put the field of a class that is at `at`, as text. Returns where the next one is. */
const uint8_t *format_value(struct out *out, const struct trace_class *class, unsigned int field,
			    const uint8_t *at);

/* Put its fields, without counts: "a = 1, b = 2". */
void format_values(struct out *out, const struct trace_class *class, const uint8_t *at);

/* Where the field behind one of that type is. */
const uint8_t *format_field_end(uint8_t type, const uint8_t *at);

/* The name of the thread that an event is about. NULL: unknown. */
const char *format_comm(const struct format *format, const struct merge_event *event);

#endif
