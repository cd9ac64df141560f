/* SPDX-License-Identifier: MIT */
/*
 * Turns raw hits into the rows of the table: of the variable or a part of it, with values as its
 * type has them.
 */
#ifndef CLI_WATCH_HIT_H
#define CLI_WATCH_HIT_H

#include "cli/watch_where.h"
#include "cli/watch_writers.h"

#include <waymark/session.h>

struct watch_hits {
	struct wm_session *session;
	struct writers *table;
	struct watch_wheres *wheres;
	int is_hex;
};

/* Take an event of wm_session_read(); what is no hit is passed over. 0 or -ENOMEM. */
int watch_hits_add(const struct watch_hits *hits, const struct wm_event *event);

#endif
