/* SPDX-License-Identifier: MIT */
/* What one watch came to, as the recording says it at its end, and as `waymark report` reads it. */
#ifndef CLI_WATCH_COUNTS_H
#define CLI_WATCH_COUNTS_H

#include "cli/json.h"
#include "record/watch/watches.h"

#include <stdio.h>

/*
 * "watch:count: 20 hits; 3 missed: ...". Further lines have `margin` in front. `unproven`: why a
 * watch without a hit may have missed all (struct watched_list), or 0. What it was before a change
 * is not printed.
 */
void watch_counts_text(const struct watched_spec *watched, int unproven, const char *margin,
		       FILE *to);

/* The same as an object of an array. */
void watch_counts_json(const struct watched_spec *watched, int unproven, struct json *json);

#endif
