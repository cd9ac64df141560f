/* SPDX-License-Identifier: MIT */
/* An expression's steps, gone through the types that debug information declares. */
#ifndef TARGET_EXPRESSION_STEPS_H
#define TARGET_EXPRESSION_STEPS_H

#include "target/expression/declared.h"
#include "target/expression/watch_place.h"

/* The walk's state. `type` is of what is at the place or, with is_address, at the address. */
struct steps {
	const struct watch_expr *expr;
	struct watch_place *place; /* start and follows grow */
	struct watch_trouble *trouble;
	const struct code_file *file;	    /* that the types are of; NULL: no types */
	struct code_module *const *modules; /* where a cast's type may be declared */
	size_t module_count;
	struct declared type;
	int has_type; /* 0: of a number, a void * that was followed */
	int is_address;
	unsigned int base_count; /* virtual base classes on the way */
	unsigned int bit,
		bits; /* of a bit-field, from the lowest bit of the byte at the current place */
	uint64_t record_offset,
		record_bytes; /* of the bit-field's byte in the record that it is a member of */
};

/* Why a type does not allow a step. */
#define MISFIT_MEMBER                                                                              \
	": only structures, unions and classes have members; of a pointer to one by ->, else by ."
#define MISFIT_ELEMENT ": only arrays and pointers have elements"
#define MISFIT_POINTER ": only a pointer can be followed"
#define MISFIT_VOID ": give the length: EXPRESSION/8"
#define MISFIT_FUNCTION ": this is a function; to watch its execution: watch:NAME:x"
#define MISFIT_DATA ": this is data, not code; leave out :x to watch writes"

/* Go them all, from a base whose place, type and is_address are set. 0, or why not. */
int steps_go(struct steps *steps);

/*
 * How many bytes are watched, and their type; moves a bit-field's place to its storage unit. 0, or
 * why not.
 */
int steps_end(struct steps *steps);

#endif
