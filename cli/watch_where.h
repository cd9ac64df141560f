/* SPDX-License-Identifier: MIT */
/*
 * Where instructions of recorded processes are in their source. A live recording uses the modules
 * that each process has reported, also once it has ended. A trace has its own list of modules.
 */
#ifndef CLI_WATCH_WHERE_H
#define CLI_WATCH_WHERE_H

#include "abi/page.h"
#include "read/history/spot.h"
#include "read/pass/merge.h"
#include "read/rows/render.h"
#include "record/session/session.h"

#include <stdint.h>

#define WATCH_WHERE_BYTES 512		      /* of watch_where_text() */
#define WATCH_CALLERS_SHOWN FIELD_CALLERS_MAX /* of a backtrace: a watch has fewer */

struct where {
	uint64_t address; /* 0: not known */
	struct spot spot; /* of the instruction; of a return address, of the call before it */
	int is_restorer;  /* a signal handler returns there */
};

/* An instruction, and the places that its function and the callers return to. */
struct where_backtrace {
	const struct where *frames[1 + WATCH_CALLERS_SHOWN];
	unsigned int count; /* 0: none was asked for */
};

struct watch_wheres;

/* 0 or -ENOMEM; the session must live as long as it is asked. Free allows NULL. */
int watch_wheres_new(struct watch_wheres **wheres, struct wm_session *session);
void watch_wheres_free(struct watch_wheres *wheres);

/* The same of a trace, whose processes have the numbers of its facts. */
int watch_wheres_read(struct watch_wheres **wheres, struct images *images);

/*
 * The places of a hit's `ip` and callers, in a process by its number in the session. They are valid
 * until `wheres` is freed; the same place has the same pointer. 0 or -ENOMEM.
 */
int watch_backtrace_event(struct watch_wheres *wheres, uint32_t process,
			  const struct wm_event *event, struct where_backtrace *backtrace);

/* The same of one address at a time by the wall clock; it lives as long. NULL: no memory. */
const struct where *watch_where_at(struct watch_wheres *wheres, uint32_t process, uint64_t ns,
				   uint64_t address);

/* Whether events of a class are hits of a watch. */
int watch_backtrace_has(const struct trace_class *class);

/* Whether they are hits of a marker or probe with a callchain. */
int watch_callchain_has(const struct trace_class *class);

/* The places of such an event in a trace, as of watch_backtrace_event(). */
int watch_backtrace_read(struct watch_wheres *wheres, const struct merge_event *event,
			 struct where_backtrace *backtrace);

/*
 * As "add (sum.h:12) in main (bank.c:41)", "worker+0x12", "libc.so.6+0x1234", "0x7f..." or, for 0,
 * "?" in text[room]. Returns text.
 */
char *watch_where_text(const struct where *where, char *text, size_t room);

/* One line for each frame, without newline: "#2 main (bank.c:41)". Inlined functions are frames. */
void watch_backtrace_lines(const struct where_backtrace *backtrace,
			   void (*line)(const char *text, void *data), void *data);

/* A place as columns of a table, of its innermost function; and their values. */
#define WATCH_WHERE_COLUMNS                                                                        \
	{ "address", ROW_ADDRESS, ROW_PLAIN, ROW_DETAIL, "of the instruction" },                   \
		{ "module", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the file that the code is from" },   \
		{ "function", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the innermost, also in line" },    \
		{ "offset", ROW_U64, ROW_PLAIN, ROW_DETAIL, "in the function, or the module" },    \
		{ "source", ROW_TEXT, ROW_PLAIN, ROW_DETAIL, "the file" },                         \
	{                                                                                          \
		"line", ROW_U64, ROW_PLAIN, ROW_DETAIL, "and line of source"                       \
	}

#define WATCH_WHERE_VALUES(at, file, beyond, frame)                                                \
	row_address(at), row_words(file), row_words((frame)->function), row_u64(beyond),           \
		row_words((frame)->source), (frame)->source ? row_u64((frame)->line) : row_null()

/* A row of frame_table for each frame, also in line; `hit`: the column of that name. */
void watch_frames_put(const struct where_backtrace *backtrace, struct row_value hit,
		      struct rows *rows);
extern const struct row_table frame_table;

#endif
