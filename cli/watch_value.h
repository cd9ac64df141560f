/* SPDX-License-Identifier: MIT */
/* A watched value as people read it. */
#ifndef CLI_WATCH_VALUE_H
#define CLI_WATCH_VALUE_H

#include "cli/watch_writers.h"
#include "target/expression/type.h"

#include <stddef.h>
#include <stdint.h>
#include <waymark/session.h>

#define WATCH_PART_BYTES 128

/*
 * A hit's old or new value in text[room]: as its variable's type has it, RED or {x = 1, y = 2};
 * where that is unknown (NULL, or no nodes) or differs from the field's, as the field has it. A
 * longer text ends in "...". Returns text.
 */
char *watch_value_text(const struct watch_type *type, const struct wm_event_field *field,
		       int is_hex, char *text, size_t room);

/*
 * How many bytes the debug register holds that begins `offset` behind a value's first byte, which
 * is at `address`; 0: none begins there.
 */
uint32_t watch_value_piece(uint64_t address, uint64_t bytes, uint32_t offset);

/* Of a value in several registers. */
struct watch_change {
	char *part; /* room for WATCH_PART_BYTES: behind the words of the whole, ".size", or "+8" */
	char *before, *after; /* room for WATCH_VALUE_BYTES each */
};

/*
 * Which part of the whole a hit of one register, or of several of one number, changed, with the
 * values there: 1. Bytes that are no part by themselves are named by their offset, as one number:
 * 0. -ERANGE: likewise, but these are bytes of a number with other bytes in other registers: *part
 * is that number.
 */
int watch_value_change(const struct watch_type *type, const struct watch_stretch *stretch,
		       int is_hex, struct watch_part *part, const struct watch_change *change);

#endif
