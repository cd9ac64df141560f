/* SPDX-License-Identifier: MIT */
/* Predicates (abi/predicate.h): checked, and bound to the types of fields. Any thread. */
#ifndef BASE_PREDICATE_H
#define BASE_PREDICATE_H

#include "abi/predicate.h"
#include "abi/watch.h"

/* Whether one that another process sent is well formed: both texts end, and it has a value. */
int predicate_is_sound(const struct predicate *predicate);

/*
 * Bind a predicate to a field of a type (WM_TYPE_*): the condition that its value must meet. Of a
 * string it has `by` alone. 0; -EINVAL: such a field can't be compared so; -ERANGE: the type has no
 * such value.
 */
int predicate_bind(const struct predicate *predicate, uint8_t type,
		   struct watch_condition *condition);

/*
 * The number of the field that a predicate or sum names, or has the `number` + 1 of, among `count`
 * of an event; their names are in `fields` as abi/site.h has them. -1: none.
 */
int predicate_field(const char *name, unsigned int number, const char *fields, unsigned int count);

/* What every event has that a name means, and its type; PREDICATE_OF_FIELD: nothing. */
enum predicate_of predicate_context(const char *name, uint8_t *type);

/* Whether the glob of a condition on the caller is for a module with this path. */
int predicate_names_module(const char *glob, const char *path);

/* Why an event has no condition on a name that one may expect, and what has it; "": no reason. */
const char *predicate_lack(const char *name);

#endif
