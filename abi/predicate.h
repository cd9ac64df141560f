/* SPDX-License-Identifier: MIT */
/*
 * Predicates: conditions on an event's fields. The agent tests them before it writes anything.
 *
 * A tool names fields and does not number them: the glob of a marker takes many events, and a
 * library may bring more. The agent finds each field among those of the event and binds the number
 * to its type (base/predicate.h). It refuses an event without such a field, or whose field can't be
 * compared so.
 *
 * All predicates of one spec must hold. Where several specs take one marker, it is recorded if
 * those of any spec hold.
 *
 * A spec with PREDICATE_DURATION in a predicate or a sum (abi/sum.h) takes spans of markers
 * that have no field of that name. Each is one event of kind 'm', at its end, with the fields of
 * begin and end, then the ns between them as WM_TYPE_U64.
 */
#ifndef ABI_PREDICATE_H
#define ABI_PREDICATE_H

#include <stdint.h>

#define PREDICATES_MAX 4 /* of one spec */
#define PREDICATE_NAME_BYTES 64
#define PREDICATE_TEXT_BYTES 64
#define PREDICATE_DURATION "duration"

/*
 * Where an event has no field of that name: what every event has besides, X(name, type). The thread
 * as the target's PID namespace numbers it, its name as it was last looked at, the CPU that it is
 * on, its process as that namespace numbers it; at a function's entry, in whose code it returns: a
 * module's, whose name is compared.
 */
#define PREDICATE_CONTEXTS(X)                                                                      \
	X(tid, WM_TYPE_I32)                                                                        \
	X(comm, WM_TYPE_STR)                                                                       \
	X(cpu, WM_TYPE_U32)                                                                        \
	X(pid, WM_TYPE_I32)                                                                        \
	X(caller, WM_TYPE_STR)

#define PREDICATE_CONTEXT(name, type) PREDICATE_OF_##name,
enum predicate_of { PREDICATE_OF_FIELD, PREDICATE_CONTEXTS(PREDICATE_CONTEXT) PREDICATE_OF_COUNT };
#undef PREDICATE_CONTEXT

/* The forms in which a value can be read. */
#define PREDICATE_INTEGER 1u  /* `number` */
#define PREDICATE_NEGATIVE 2u /* it is below 0 */
#define PREDICATE_HEX 4u      /* all bits are written out: 0xffffffff is -1 of 32 bits, as in C */
#define PREDICATE_FLOAT 8u    /* `f64`, `f32` */
#define PREDICATE_TEXT 16u    /* `text` is a glob (base/text_glob.h) */
#define PREDICATE_WORD 32u    /* `text` is an enumerator; the tool makes it an integer */

struct predicate {
	char name[PREDICATE_NAME_BYTES]; /* of the field, NUL-terminated */
	char text[PREDICATE_TEXT_BYTES]; /* NUL-terminated */
	uint64_t number;		 /* in two's complement */
	uint64_t f64;
	uint32_t f32;
	uint8_t by;    /* enum watch_by (abi/watch.h); of a text: equal is "matches" */
	uint8_t forms; /* PREDICATE_* */
	uint8_t field; /* its number + 1, where the tool knows it; 0: find it by its name */
	uint8_t reserved;
};

_Static_assert(sizeof(struct predicate) == 152, "fixed");

#endif
