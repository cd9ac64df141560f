/* SPDX-License-Identifier: MIT */
/*
 * Shared by the commands that report lines: a trace's trails counted, and warnings about modules
 * without lines.
 */
#ifndef CLI_LINES_GATHER_H
#define CLI_LINES_GATHER_H

#include "cli/trail_view.h"
#include "read/history/lines.h"

/* What the trace lacks where nothing is shown, for complain(). */
#define LINES_LACKING                                                                              \
	"code of a source that was asked for (a glob without a slash is of a path's last part)"

/* Count what ran in a trace. 0 or -ENOMEM. */
int lines_gather(struct lines *lines, struct trail_view *view, const struct trail_wanted *wanted);

/*
 * Warn about modules that ran code and have no line information. Returns how many have it.
 */
size_t lines_complain(const struct lines *lines);

#endif
