/* SPDX-License-Identifier: MIT */
/* --from and --to of commands that read trails: words made bounds. */
#ifndef CLI_TRAIL_BOUNDS_H
#define CLI_TRAIL_BOUNDS_H

#include "cli/command_line.h"
#include "cli/trail_view.h"
#include "trace/trail/range.h"

/* What the help of each command says of them. */
#define TRAIL_BOUNDS_HELP                                                                              \
	"  --from WHEN   from there on: seconds since the trace's begin; marker:SUBSYS:EVENT or\n"     \
	"                event:SUBSYS:EVENT, with #N the Nth of it; block:N, counted in each thread\n" \
	"  --to WHEN     up to there\n"

struct trail_bounds {
	const char *from_text, *to_text; /* as given; NULL: not */
	struct trail_bound from, to;
	struct trail_moment from_hit, to_hit; /* of a watch's event: that; else zeroed */
};

/* Their rows in the table of a command, whose options have a struct trail_bounds `bounds`. */
#define TRAIL_BOUNDS_ROWS(options)                                                                 \
	{ "from", 0, COMMAND_CALL, COMMAND_TO(options, bounds), .take = trail_bounds_take },       \
	{                                                                                          \
		"to", 0, COMMAND_CALL, COMMAND_TO(options, bounds), .min = 1,                      \
								    .take = trail_bounds_take      \
	}

/* Take a text as --from, or where `option` has a `min` as --to. CLI_FINE or CLI_USAGE. */
int trail_bounds_take(void *options, const struct command_option *option, const char *text,
		      const char *command);

/* Find in the trace what they name: CLI_FINE, or another exit status, all being said. */
int trail_bounds_find(struct trail_bounds *bounds, const char *command, struct trail_view *view);

/* The stretch of a path between them. */
void trail_bounds_range(const struct trail_bounds *bounds, const struct trail_view *view,
			const struct trail_path *path, struct trail_range *range);

#endif
