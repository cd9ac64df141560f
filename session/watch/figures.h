/* SPDX-License-Identifier: MIT */
/*
 * What a watch came to, as the trace's metadata keeps it:
 *
 *	"hits=20 missed=99 processes=1 registers=1 spec watch:in_turn"
 *
 * Figures of 0 are left out, and a reader ignores those that it does not know.
 */
#ifndef SESSION_WATCH_FIGURES_H
#define SESSION_WATCH_FIGURES_H

#include "session/watch/watches.h"

struct trace_writer;

/* Note what all of a session's watches came to, also what they were before a change. 0 or -ENOMEM. */
int figures_write(const struct watched_list *list, struct trace_writer *writer);

/*
 * Read one again. *unproven: as of struct watched_list. 0, -EINVAL or -ENOMEM. Release it with
 * watched_spec_release() also after an error.
 */
int figures_read(struct watched_spec *watched, int *unproven, const char *words);

#endif
