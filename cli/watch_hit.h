/* SPDX-License-Identifier: MIT */
/*
 * Turns raw hits into the rows of the table: of the variable or a part of it, with values as its
 * type has them. A number in several debug registers is one hit where one instruction wrote all of
 * it.
 */
#ifndef CLI_WATCH_HIT_H
#define CLI_WATCH_HIT_H

#include "cli/watch_where.h"
#include "cli/watch_writers.h"

#include <waymark/session.h>

struct wm_session;
struct watch_hits;

/* The arguments must live as long. 0 or -ENOMEM. Free allows NULL. */
int watch_hits_new(struct watch_hits **hits, struct wm_session *session, struct writers *table,
		   struct watch_wheres *wheres, int is_hex);
void watch_hits_free(struct watch_hits *hits);

/* Take an event of wm_session_read(); what is no hit is passed over. 0 or -ENOMEM. */
int watch_hits_add(struct watch_hits *hits, const struct wm_event *event);

/*
 * A read is over. Parts that have waited for their other registers since the read before, or all if
 * this is the last, become hits of one register each. 0 or -ENOMEM.
 */
int watch_hits_settle(struct watch_hits *hits, int is_last);

#endif
