/* SPDX-License-Identifier: MIT */
/*
 * Sums that come as events (waymark-sums(7)), added up for an interval of `waymark top`. Zeroed:
 * none. One thread.
 */
#ifndef CLI_TOP_SUMS_H
#define CLI_TOP_SUMS_H

#include "cli/sums_lines.h"
#include "cli/top_symbols.h"

#include <stddef.h>
#include <waymark/session.h>

struct top_sums {
	struct sums_class *classes; /* of names and fields; their classes are its own */
	size_t class_count, class_room;
	struct sums_lines lines; /* of the interval: sums_lines_clear() begins the next */
};

/* Add an event of the kind 's' to them; callers are named by `symbols`. 0 or -ENOMEM. */
int top_sums_take(struct top_sums *sums, struct top_symbols *symbols, const struct wm_event *event);

void top_sums_release(struct top_sums *sums);

#endif
