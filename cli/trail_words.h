/* SPDX-License-Identifier: MIT */
/* What the ways of showing a trail say alike: places, threads, events; for people and as JSON. */
#ifndef CLI_TRAIL_WORDS_H
#define CLI_TRAIL_WORDS_H

#include "base/out.h"
#include "cli/json.h"
#include "cli/trail_view.h"

#include <stdint.h>

/* A text, escaped, and spaces behind it up to a width. */
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

/* ---- JSON: members of an object ---- */

/*
 * KEY: {"address": "0x12", "function": , "linkage": , "offset": , "module": , "source": , "line":
 * }; what is not known is null.
 */
void words_json_place(struct json *json, const char *key, struct image *image, uint64_t address);

/* "shop.c:12". In text[], which is returned; NULL: the line is not known. */
#define WORDS_LINE_BYTES 128
const char *words_line_text(const struct image_line *line, char text[WORDS_LINE_BYTES]);

/* An address as a string, in hexadecimal: JSON's numbers do not hold all. */
void words_json_address(struct json *json, const char *key, uint64_t address);

/* "pid", "tid", "comm". */
void words_json_thread(struct json *json, const struct trail_path *path);

/* The same, and what words_thread() says. */
void words_json_path(struct json *json, const struct trail_view *view,
		     const struct trail_path *path);

/* "event" and what it says: of a signal "number", "name" and "handler", and so on. */
void words_json_event(struct json *json, struct image *image, const struct trail_between *between);

/* "time_s" since `begin_ns`. */
void words_json_time(struct json *json, const char *key, uint64_t ns, uint64_t begin_ns);

#endif
