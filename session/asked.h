/* SPDX-License-Identifier: MIT */
/*
 * What requests have found in a module, kept until all requests are resolved.
 */
#ifndef SESSION_ASKED_H
#define SESSION_ASKED_H

#include "code/place.h"
#include "code/trampoline.h"
#include "session/spec.h"

#include <stddef.h>
#include <stdint.h>

#define ASKED_RECORD_MAX 16384 /* bytes of one detour, texts included */

struct asked {
	struct spec *spec;   /* NULL: a guard, which nobody asked for */
	uint32_t covered_by; /* number + 1 of an earlier one that serves this, too; 0: none */
	uint32_t next_there; /* the next at the same point, its number + 1; 0: none */
	const void *place;   /* a struct code_place up to its last field, its names behind; NULL */
	struct control_detour
		*detour;     /* its records, a choice each, for base 0; NULL: refused, or covered */
	size_t detour_bytes; /* of all */
	unsigned int choice_count;
	int error;    /* why it is refused; 0 */
	char *detail; /* of the refusal; NULL: "" */
};

struct asked_list {
	struct asked *all;
	size_t count, room;
};

/* One more, zeroed; NULL: no memory. It moves when the next is added. */
struct asked *asked_add(struct asked_list *list);
void asked_release(struct asked_list *list);

/* Keep a copy of the place, names included. 0 or -ENOMEM. */
int asked_keep(struct asked *asked, const struct code_place *place);

/* The place that was kept; its names are the list's. */
void asked_place(const struct asked *asked, struct code_place *place);

/* Likewise its point and its names alone, which cost nothing. */
const struct code_place *asked_head(const struct asked *asked);

/* Add the record of one more choice. 0; -WM_E_SPEC: its names are too long; -ENOMEM. */
int asked_record(struct asked *asked, const struct code_place *place,
		 const struct trampoline *trampoline);

/* Refuse it: its record goes. 0 or -ENOMEM. */
int asked_refuse(struct asked *asked, int error, const char *detail);

#endif
