/* SPDX-License-Identifier: MIT */
/* A watched value as people read it. */
#ifndef CLI_WATCH_VALUE_H
#define CLI_WATCH_VALUE_H

#include "code/watch/type.h"

#include <stddef.h>
#include <waymark/session.h>

/*
 * A hit's old or new value in text[room]: as its variable's type has it, RED or {x = 1, y = 2}, or one part of that, `node` (0: it is the
 * whole); where that is not known (NULL, or no nodes) or is not the field's, as the field has it. What does not fit ends in "...".
 * Returns text.
 */
char *watch_value_text(const struct watch_type *type, uint32_t node,
		       const struct wm_event_field *field, char *text, size_t room);

/*
 * What a hit in one of several registers is of, behind the words of the whole: a member where the register holds just that, ".size", else
 * "+8". Returns its node in the type; 0: it is not one.
 */
uint32_t watch_value_part(const struct watch_type *type, uint32_t offset,
			  const struct wm_event_field *field, char *text, size_t room);

#endif
