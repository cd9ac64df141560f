/* SPDX-License-Identifier: MIT */
/* What the requests found in a module, kept until all requests are resolved. */
#ifndef RECORD_PROBE_ASKED_H
#define RECORD_PROBE_ASKED_H

#include "record/spec/spec.h"
#include "target/code/probe_place.h"
#include "target/code/trampoline.h"

#include <stddef.h>
#include <stdint.h>

#define ASKED_RECORD_MAX 16384 /* of one detour's record, texts included */

struct asked {
	struct spec *spec;   /* NULL: a guard, which belongs to no spec */
	uint32_t covered_by; /* number + 1 of an earlier place that records the same; 0: none */
	/* a struct code_place without its unused fields, then its names; NULL: none */
	const void *place;
	/* its records, one for each choice, for base 0; NULL: refused or covered */
	struct control_detour *detour;
	size_t detour_bytes; /* of all records */
	unsigned int choice_count;
	int error;    /* why it is refused; 0: it is not */
	char *detail; /* about the refusal; NULL: "" */
};

struct asked_list {
	struct asked *all;
	size_t count, room;
};

/* Add a zeroed one. Its address is valid until the next call. NULL: no memory. */
struct asked *asked_add(struct asked_list *list);
void asked_release(struct asked_list *list);

/* Keep a copy of the place, names included. 0 or -ENOMEM. */
int asked_keep(struct asked *asked, const struct code_place *place);

/* Get the place that was kept. Its names belong to the list. */
void asked_place(const struct asked *asked, struct code_place *place);

/* The same without a copy: only its head, that is point and names, may be used. */
const struct code_place *asked_head(const struct asked *asked);

/* Add the record of one more choice. 0; -WM_E_SPEC: its names are too long; -ENOMEM. */
int asked_record(struct asked *asked, const struct code_place *place,
		 const struct trampoline *trampoline);

/* Refuse it, and drop its records. 0 or -ENOMEM. */
int asked_refuse(struct asked *asked, int error, const char *detail);

#endif
