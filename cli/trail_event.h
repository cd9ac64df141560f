/* SPDX-License-Identifier: MIT */
/*
 * The lines of a listing that all listings of a trail have: which thread it is of, and what came
 * between.
 */
#ifndef CLI_TRAIL_EVENT_H
#define CLI_TRAIL_EVENT_H

#include "cli/trail.h"
#include "read/history/crash.h"

#define TRAIL_LEFT_WIDTH 14 /* of the first column: an index, or a time */

/*
 * Head each thread that is wanted, and have its path put by `put`, until that or writing fails. 0,
 * -ENOMEM, or what `put` returned.
 */
int trail_each_path(struct trail_show *show,
		    int (*put)(struct trail_show *show, const struct trail_path *path,
			       struct image *image));

/*
 * An event's line: when, what, and where it was, with the instruction that was to run there; or its
 * rows. `item` is the event; a cursor behind it is not needed.
 */
void trail_put_event(struct trail_show *show, const struct trail_path *path, struct image *image,
		     const struct trail_item *item);

/* `before`, and "text=0x0, limit=10"; "?" for an unknown value. Nothing if all are unknown. */
void trail_crash_arguments(struct out *out, const struct code_frame *frame, const char *before);

#endif
