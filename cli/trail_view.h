/* SPDX-License-Identifier: MIT */
/*
 * A trace's trails, opened for a command to read: which of them are wanted, from when to when
 * (--from and --to), what they lack, and what is to be said of them at the end.
 */
#ifndef CLI_TRAIL_VIEW_H
#define CLI_TRAIL_VIEW_H

#include "cli/command_line.h"
#include "read/history/image.h"
#include "trace/trail/path.h"
#include "trace/trail/range.h"

struct trail_bounds {
	const char *from_text, *to_text; /* as given; NULL: not */
	struct trail_bound from, to;
	struct trail_moment from_hit, to_hit; /* of a watch's event: that; else zeroed */
};

/* What a command is asked to read: threads, and from when to when. */
struct trail_wanted {
	uint32_t tid, pid; /* 0: all */
	struct trail_bounds bounds;
};

/* What the help of each command says of --from and --to. */
#define TRAIL_BOUNDS_HELP                                                                          \
	"  --from WHEN   from there on: seconds since the trace's begin; marker:SUBSYS:EVENT or\n" \
	"                event:SUBSYS:EVENT, with #N the Nth of it; block:N, counted in each\n"    \
	"                thread\n"                                                                 \
	"  --to WHEN     up to there\n"

/* Rows in a command's table for a struct trail_bounds, and for all of a struct trail_wanted. */
#define TRAIL_BOUNDS_ROWS(options, member)                                                         \
	{ "from", 0, COMMAND_CALL, COMMAND_TO(options, member), .take = trail_bounds_take },       \
	{                                                                                          \
		"to", 0, COMMAND_CALL, COMMAND_TO(options, member), .min = 1,                      \
								    .take = trail_bounds_take      \
	}
#define TRAIL_WANTED_ROWS(options, member)                                                         \
	{ "tid", 0, COMMAND_ID, COMMAND_TO(options, member.tid) },                                 \
		{ "pid", 0, COMMAND_ID, COMMAND_TO(options, member.pid) },                         \
		TRAIL_BOUNDS_ROWS(options, member.bounds)

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

/* Whether a thread is wanted, and how many with a trail are. */
int trail_wants(const struct trail_wanted *wanted, const struct trace_stream *stream);
size_t trail_view_count(const struct trail_view *view, const struct trail_wanted *wanted);

/* ---- bounds ---- */

/* Take a text as --from, or where `option` has a `min` as --to. CLI_FINE or CLI_USAGE. */
int trail_bounds_take(void *options, const struct command_option *option, const char *text,
		      const char *command);

/* Find in the trace what they name: CLI_FINE, or another exit status, all being said. */
int trail_bounds_find(struct trail_bounds *bounds, const char *command, struct trail_view *view);

/* The stretch of a path between them. */
void trail_bounds_range(const struct trail_bounds *bounds, const struct trail_view *view,
			const struct trail_path *path, struct trail_range *range);

/* ---- what is missing ---- */

/* What one thread's trail lacks. */
struct trail_lost {
	uint64_t places, blocks; /* the latter: that are known of */
	uint64_t unrecorded;	 /* places where code ran unrecorded */
	int is_cut;		 /* it stops without an end, within the bounds */
};

void trail_lost_count(struct trail_lost *lost, const struct trace_reader *reader,
		      const struct trail_range *range);

/*
 * Whether the trace lists that thread, and its recording was cut off before any of it was written.
 */
int trail_lost_is_gone(const struct trace_reader *reader,
		       const struct trail_thread_entry *reported);

/*
 * Print on stderr the threads whose trail stops without an end and, with_losses, those that miss
 * blocks between the bounds. Returns how many threads it named.
 */
size_t trail_complain_missing(const struct trail_view *view, const struct trail_wanted *wanted,
			      int with_losses);

#endif
