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

/*
 * Which part of a value in several registers a hit of one of them changed: part[WATCH_PART_BYTES]
 * is ".size" behind the words of the whole, before[] and after[] are the part's values, of
 * WATCH_VALUE_BYTES each. Bytes that are no part by themselves, as the half of a number that two
 * registers hold, are "+8", by their offset, and as one number.
 */
void watch_value_change(const struct watch_type *type, const struct watch_stretch *stretch,
			int is_hex, char *part, char *before, char *after);

#endif
