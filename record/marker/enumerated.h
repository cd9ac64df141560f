/* SPDX-License-Identifier: MIT */
/*
 * The names of values, for the events of a plan. Agents do not know them: when an agent reports an
 * event, the session finds its names by the event's text (abi/site.h).
 */
#ifndef RECORD_MARKER_ENUMERATED_H
#define RECORD_MARKER_ENUMERATED_H

#include "abi/detour.h"
#include "target/code/probe_place.h"

#include <stddef.h>

struct plan;

struct enumerated {
	const char *text; /* points into the detour's record, or is `made` */
	char *made;	  /* of a row of sums (abi/sum.h); else NULL */
	const struct enumeration *names[CODE_FIELDS_MAX]; /* by field; may be NULL */
};

/* Zeroed is empty. */
struct enumerated_list {
	struct enumerated *all; /* sorted by text after enumerated_sort() */
	size_t count, room;
	struct enumeration_pool pool;
};

/* Add the events of a place. The detour's record must outlive the list. 0 or -ENOMEM. */
int enumerated_add(struct enumerated_list *list, const struct code_place *place,
		   const struct control_detour *detour);
void enumerated_sort(struct enumerated_list *list);
void enumerated_release(struct enumerated_list *list);

/*
 * Find the names for the fields of an event with that text. They live as long as the plans. Several
 * files may have the same module name, as two versions of a library: if their plans disagree on a
 * field, it gets no names, since the text does not say which file the event is of.
 */
void enumerated_find(const struct plan *plans, const char *text,
		     const struct enumeration *names[CODE_FIELDS_MAX]);

#endif
