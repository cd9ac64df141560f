/* SPDX-License-Identifier: MIT */
/* What a recording's watches came to. */
#ifndef CLI_OUTCOME_WATCH_H
#define CLI_OUTCOME_WATCH_H

#include "cli/json.h"
#include "record/session/session.h"
#include "record/watch/watches.h"

/*
 * On stderr, once they are armed: a line for each that is watched another way than was asked for.
 */
void outcome_ways(const struct wm_session *session);

/* On stderr, a line for each: how many hits, and what of them is not in the trace, why. */
void outcome_watches(const struct watched_list *list);

/*
 * On stderr, a line for each watch that was armed in no process, and for programs that ran before
 * their watches were armed. Returns how many of the former.
 */
size_t outcome_unwatched(const struct wm_session *session);

/* On stderr, once all has begun, a line for each that waits for what it names. */
void outcome_waiting(const struct wm_session *session);

/* The same as members "watches" and "unwatched". */
void outcome_watches_json(struct json *json, const struct watched_list *list);

#endif
