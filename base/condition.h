/* SPDX-License-Identifier: MIT */
/*
 * A watch's conditions (abi/watch.h), for hits that are seen inside and outside. Hit path: floating
 * point is compared as integers.
 */
#ifndef BASE_CONDITION_H
#define BASE_CONDITION_H

#include "abi/watch.h"

/* Whether a condition is valid for values of so many bytes. Not for an unused one. */
int condition_is_sound(const struct watch_condition *condition, unsigned int bytes);

/* Values are in memory order; bytes from `bytes` on are 0. */
int condition_holds(const struct watch_condition *condition, uint64_t old, uint64_t now,
		    unsigned int bytes, int32_t tid);

/* Whether the value that the condition asks of is not exact, by the hit's `how`. */
int condition_is_uncertain(const struct watch_condition *condition, uint16_t how);

#endif
