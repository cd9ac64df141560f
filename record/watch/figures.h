/* SPDX-License-Identifier: MIT */
/*
 * The results of a watch, as the trace's metadata keeps them:
 *
 *	"hits=20 missed=99 processes=1 registers=1 spec watch:in_turn"
 *
 * Figures of 0 are left out. A reader ignores figures that it does not know.
 */
#ifndef RECORD_WATCH_FIGURES_H
#define RECORD_WATCH_FIGURES_H

#include "record/watch/watches.h"

struct trace_writer;

/*
 * Write the results of all of a session's watches, also those from before a change. 0 or -ENOMEM.
 */
int figures_write(const struct watched_list *list, struct trace_writer *writer);

/*
 * Read the results of one watch back. *unproven: as in struct watched_list. Returns 0, -EINVAL or
 * -ENOMEM. Release *watched with watched_spec_release(), also after an error.
 */
int figures_read(struct watched_spec *watched, int *unproven, const char *words);

#endif
