/* SPDX-License-Identifier: MIT */
/*
 * Handlers from outside (abi/handler.h): which a session has, and for which events. Their code is
 * loaded as long as any is here or in a plan: inside/control/handler_objects.h. Under the agent's
 * lock.
 */
#ifndef INSIDE_MARKER_HANDLERS_H
#define INSIDE_MARKER_HANDLERS_H

#include "abi/handler.h"
#include "inside/marker/plan.h"

struct variant;

/* One more of a session: `about` was checked. 0, -ENOMEM, -E2BIG. */
int handlers_add(unsigned int lane, const struct control_handler *about, plan_handler call);
void handlers_clear(unsigned int lane);

/* Whether the session has a handler of that number and these types; number 0: yes. */
int handlers_has(unsigned int lane, unsigned int number, const uint8_t types[16]);

/* Whether none of the session's handlers is for this marker with other types. */
int handlers_fit(const struct variant *variant, unsigned int lane);

/* The session's handler for an event, and its number; NULL: none. */
plan_handler handlers_find(const struct variant *variant, unsigned int lane, uint8_t *number);

#endif
