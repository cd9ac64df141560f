/* SPDX-License-Identifier: MIT */
/* What a recording's watches came to. */
#ifndef CLI_OUTCOME_WATCH_H
#define CLI_OUTCOME_WATCH_H

#include "cli/json.h"
#include "session/watch/watches.h"

/* On stderr, a line for each: how many hits, and what of them is not in the trace, why. */
void outcome_watches(const struct watched_list *list);

/* The same as a member "watches". */
void outcome_watches_json(struct json *json, const struct watched_list *list);

#endif
