/* SPDX-License-Identifier: MIT */
/* What the ways of showing a trail say alike: places, threads, events; in text and in rows. */
#ifndef CLI_TRAIL_WORDS_H
#define CLI_TRAIL_WORDS_H

#include "base/out.h"
#include "cli/trail_view.h"
#include "read/rows/render.h"

#include <stdint.h>

/* A text, escaped; and with spaces behind it up to a width. */
void words_put(struct out *out, const char *text);
void words_padded(struct out *out, const char *text, size_t width);

/* A number, right-aligned. */
void words_number(struct out *out, uint64_t number, size_t width);

/* Seconds since `begin_ns`, "0.000123456", negative before it; right-aligned. */
void words_time(struct out *out, uint64_t ns, uint64_t begin_ns, size_t width);

/*
 * An address's place, "function+0x12  file.c:12" in columns, with the address in front where
 * `is_verbose`; the other function fills both columns, for more to follow.
 */
void words_place(struct out *out, struct image *image, uint64_t address, int is_verbose);
void words_place_padded(struct out *out, struct image *image, uint64_t address, int is_verbose);

/* " at function+0x12 (file.c:12)". */
void words_at(struct out *out, struct image *image, uint64_t address, int is_verbose);

/* "name-12 (process 10), by step: 1,234 blocks, 0.000000000 to 0.123456789 s", and a line's end. */
void words_thread(struct out *out, const struct trail_view *view, const struct trail_path *path);

/* What a block's last instruction does, of enum trail_kind. */
const char *words_kind(uint8_t kind);

/*
 * A block's code, out of the trace or else the module's file, where room[] is for it; NULL: it
 * can't be had.
 */
const uint8_t *words_code(struct image *image, const struct trail_table *table,
			  const struct trail_block *block, uint8_t room[TRAIL_BLOCK_BYTES_MAX]);

/*
 * A signal as "SIGSEGV", a system call as "system call write"; by number where it has no name. In
 * text[], which is returned.
 */
const char *words_signal(uint64_t number, char text[32]);
const char *words_call(uint64_t number, char text[48]);

/* An event, as "system call write = 5" or "killed by SIGSEGV"; not where it was. */
void words_event(struct out *out, struct image *image, const struct trail_between *between);

/* ---- columns of rows, and functions that fill them in a row, which is zeroed before ---- */

/* A place: its columns have `of` before their names, "from_". */
#define WORDS_PLACE_VALUES 8
#define WORDS_PLACE_COLUMNS(of)                                                                    \
	{ of "address", ROW_ADDRESS, ROW_PLAIN, 0, "of the instruction" },                         \
		{ of "function", ROW_TEXT, ROW_PLAIN, 0, "that it is in" },                        \
		{ of "linkage", ROW_TEXT, ROW_PLAIN, 0, "the function's name to the linker" },     \
		{ of "offset", ROW_U64, ROW_PLAIN, 0, "in the function" },                         \
		{ of "module", ROW_TEXT, ROW_PLAIN, 0, "the file that it is from" },               \
		{ of "module_offset", ROW_ADDRESS, ROW_PLAIN, 0, "in the module" },                \
		{ of "source", ROW_TEXT, ROW_PLAIN, 0, "the file" },                               \
	{                                                                                          \
		of "line", ROW_U64, ROW_PLAIN, 0, "and line of source"                             \
	}
void words_place_row(struct row_value *row, struct image *image, uint64_t address);

/* Whose trail it is. */
#define WORDS_THREAD_VALUES 3
#define WORDS_THREAD_COLUMNS                                                                       \
	{ "pid", ROW_U64, ROW_PLAIN, 0, "of the process" },                                        \
		{ "tid", ROW_U64, ROW_PLAIN, 0, "of the thread" },                                 \
	{                                                                                          \
		"comm", ROW_TEXT, ROW_PLAIN, 0, "the thread's name"                                \
	}
void words_thread_row(struct row_value *row, const struct trail_path *path);

/* What came between blocks. */
#define WORDS_EVENT_VALUES (9 + WORDS_PLACE_VALUES)
#define WORDS_EVENT_COLUMNS                                                                        \
	{ "event", ROW_TEXT, ROW_PLAIN, 0, "signal, syscall, lost, gap, fork, exec, end, ..." },   \
		{ "reason", ROW_TEXT, ROW_PLAIN, 0, "of a gap, or an end" },                       \
		{ "child", ROW_U64, ROW_PLAIN, 0, "of a fork" },                                   \
		{ "number", ROW_S64, ROW_PLAIN, 0, "of a signal, a system call, an exit" },        \
		{ "signal", ROW_TEXT, ROW_PLAIN, 0, "its name" },                                  \
		{ "call", ROW_TEXT, ROW_PLAIN, 0, "the system call's name" },                      \
		{ "result", ROW_S64, ROW_PLAIN, 0, "of the system call" },                         \
		{ "error", ROW_TEXT, ROW_PLAIN, 0, "its name" },                                   \
		{ "blocks", ROW_U64, ROW_COUNT, 0, "that were lost; null: unknown" },              \
		WORDS_PLACE_COLUMNS("handler_")
void words_event_row(struct row_value *row, struct image *image,
		     const struct trail_between *between, char name[32]);

/* A thread's trail as a whole: what words_thread() says. */
void words_thread_put(struct rows *rows, const struct trail_view *view,
		      const struct trail_path *path);

/* "shop.c:12". In text[], which is returned; NULL: the line is not known. */
#define WORDS_LINE_BYTES 272 /* a name of 255 bytes fits */
const char *words_line_text(const struct image_line *line, char text[WORDS_LINE_BYTES]);

#endif
