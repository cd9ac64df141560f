/* SPDX-License-Identifier: MIT */
/*
 * The results of a watch, as the trace keeps them: figures by name. Those of 0 are left out. A
 * reader ignores figures that it does not know.
 */
#ifndef RECORD_WATCH_FIGURES_H
#define RECORD_WATCH_FIGURES_H

#include "record/watch/watches.h"

struct fact_watch;
struct trace_writer;

/* Write the results of all of a session's watches, also those from before a change. */
void figures_write(const struct watched_list *list, struct trace_writer *writer);

/*
 * Read the results of one watch back. *unproven: as in struct watched_list. Returns 0 or -ENOMEM.
 * Release *watched with watched_spec_release(), also after an error.
 */
int figures_read(struct watched_spec *watched, int *unproven, const struct fact_watch *watch);

#endif
