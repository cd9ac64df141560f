/* SPDX-License-Identifier: MIT */
/*
 * Sums (abi/sum.h): how the fields of a spec are bound to those of an event, what a row is declared
 * as, and how a hit adds to a row.
 */
#ifndef INSIDE_MARKER_SUMS_H
#define INSIDE_MARKER_SUMS_H

#include "abi/sum.h"
#include "inside/marker/plan.h"

#include <stddef.h>
#include <stdint.h>

struct variant;
struct hit_callers;

/* A text in a row, and what is written behind it before it is cut. */
#define SUMS_TEXT_ROOM_BYTES (1u + SUM_TEXT_BYTES + 1 + 8)

/* Whether fields that a tool sent are well formed: texts end, and they are in order. */
int sums_are_sound(const struct sum_field *fields, unsigned int count);

/*
 * Bind the fields to an event's. 0; -WM_E_NO_PARAMETER: a field is not there; -WM_E_FIELD_TYPE: it
 * can't be added up, or by it; -E2BIG: there are more callers to be found than the event has.
 */
int sums_bind(const struct variant *variant, unsigned int lane, const struct sum_field *fields,
	      unsigned int count, struct plan_sums *sums);

/*
 * The types and the text of a row's class, from the text of the event's site. `text` has room for
 * SUMS_TEXT_BYTES more than that. Returns its length with its NUL.
 */
#define SUMS_TEXT_BYTES                                                                            \
	(SUM_FIELDS_MAX * (PREDICATE_NAME_BYTES + sizeof("WM_FIELD(, ),")) + sizeof(SUM_COUNT))
size_t sums_declare(const struct plan_sums *sums, const struct sum_field *fields, const char *from,
		    uint8_t types[16], char *text);

/*
 * Add a hit to its row. `callers`: found, where some are wanted; else NULL. 0; -1: it is lost, and
 * counted. Hit path.
 */
int sums_add(struct writer *writer, int depth, const struct plan *plan,
	     const struct plan_consumer *consumer, const unsigned char *payload, uintptr_t sp,
	     const struct hit_callers *callers)
	__attribute__((no_caller_saved_registers, noinline));

#endif
