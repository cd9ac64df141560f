/* SPDX-License-Identifier: MIT */
/* What a live session's events go to in the command: `watch` and `top`. */
#ifndef FUZZ_CONSUMERS_H
#define FUZZ_CONSUMERS_H

#include "cli/top_count.h"
#include "cli/top_sums.h"
#include "cli/watch_hit.h"
#include "record/watch/watches.h"

#include <waymark/session.h>

struct consumers {
	struct watch_wheres *wheres;
	struct writers *table;
	struct watch_hits *hits;
	struct top_count count;
	struct top_sums sums;
	struct top_symbols *symbols;
	struct watched_list watched; /* the session's while it is read: it has no such spec */
};

/* All zeroed before. A failure aborts. */
void consumers_make(struct consumers *consumers, struct wm_session *session);

/* Read once, and show all that there is, thrown away. */
void consumers_read(struct consumers *consumers, struct wm_session *session);

void consumers_release(struct consumers *consumers);

#endif
