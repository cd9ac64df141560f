/* SPDX-License-Identifier: MIT */
/* A trace's trails, opened for a command to read, and what is to be said of them at its end. */
#ifndef CLI_TRAIL_VIEW_H
#define CLI_TRAIL_VIEW_H

#include "read/history/image.h"
#include "trace/trail/path.h"

struct trail_view {
	const char *dir;
	struct trace_reader *reader;
	struct trails trails;
	uint64_t begin_ns; /* of the trace, on the wall clock */
	struct images images;
};

/*
 * Open the trace in `dir`, which must have a trail. CLI_FINE, or another exit status, all being
 * said. Close in either case.
 */
int trail_view_open(struct trail_view *view, const char *dir, const struct image_options *options);

/*
 * Say what could not be read: damage, and files without which functions have no names. Returns
 * `status`, or CLI_FAILED where the trace is damaged.
 */
int trail_view_close(struct trail_view *view, int status);

/* Say which files of any process names were wanted of and not had, a line for each. */
void trail_complain_names(const struct images *images);

/*
 * The memory of a path's process over time: image_in() for what was mapped when a block ran. NULL:
 * no memory.
 */
struct image *trail_view_image(struct trail_view *view, const struct trail_path *path);

/* The image in the era of an item; where there is no memory, of all the time. */
struct image *trail_item_image(struct image *image, const struct trail_item *item);

#endif
