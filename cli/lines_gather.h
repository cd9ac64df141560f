/* SPDX-License-Identifier: MIT */
/* What the commands that tell of lines share: a trace's trails counted, and what is said of modules without lines. */
#ifndef CLI_LINES_GATHER_H
#define CLI_LINES_GATHER_H

#include "cli/trail_bounds.h"
#include "cli/trail_view.h"
#include "history/lines.h"

struct lines_wanted {
	uint32_t tid, pid; /* 0: all */
	const struct trail_bounds *bounds;
};

/* Count what ran in a trace. 0 or -ENOMEM. */
int lines_gather(struct lines *lines, struct trail_view *view, const struct lines_wanted *wanted);

/*
 * Say which modules ran code and tell of no lines. Returns how many do tell of them.
 */
size_t lines_complain(const struct lines *lines);

#endif
