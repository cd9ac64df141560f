/* SPDX-License-Identifier: MIT */
/* What one watch came to, as the recording says it at its end, and as `waymark report` reads it. */
#ifndef CLI_WATCH_COUNTS_H
#define CLI_WATCH_COUNTS_H

#include "read/rows/render.h"
#include "record/watch/watches.h"

#include <stdio.h>

/*
 * "watch:count: 20 hits; 3 missed: ...". Further lines have `margin` in front. `unproven`: why a
 * watch without a hit may have missed all (struct watched_list), or 0. What it was before a change
 * is not printed.
 */
void watch_counts_text(const struct watched_spec *watched, int unproven, const char *margin,
		       FILE *to);

/* The same as a row of the open table. */
extern const struct row_table watch_table;
void watch_row(struct rows *rows, const struct watched_spec *watched, int unproven);

/* All of a session: lines on stderr; a table. */
void watches_print(const struct watched_list *list);
void watches_rows(struct rows *rows, const struct watched_list *list);

#endif
