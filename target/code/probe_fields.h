/* SPDX-License-Identifier: MIT */
/* Which of the values at a point become an event's fields. */
#ifndef TARGET_CODE_PROBE_FIELDS_H
#define TARGET_CODE_PROBE_FIELDS_H

#include "target/code/probe_place.h"
#include "target/code/code_request.h"

#define CODE_VALUES_MAX 64
#define CODE_DETAIL_BYTES 256

/* The values at a point: a function's parameters, a probe's arguments. Type 0: cannot be read. */
struct code_values {
	struct code_field all[CODE_VALUES_MAX];
	unsigned int count;
	int with_registers; /* registers may be named too */
	int is_told;  /* the program describes these values: if the user names none, record them */
	int lost_err; /* why one with type 0 can't be had: -WM_E_PARAMETER_LOST, -WM_E_OPERAND */
	int lost_errs[CODE_VALUES_MAX]; /* why this one can't; 0: as above */
	uint8_t positions
		/* N of argN, for a structure's members its own; 0: as in all[] */
		[CODE_VALUES_MAX];
};

/* The integer registers of the psABI's first six arguments as arg1 to arg6. */
void code_values_registers(struct code_values *values);

/*
 * Fill the place's fields with what the request wants. 0; -WM_E_NO_PARAMETER, -WM_E_PARAMETER_LOST,
 * -WM_E_PARAMETER_TYPE, -WM_E_OPERAND, -WM_E_FIELD_TYPE, with the field's name in name[64].
 */
int code_fields_choose(const struct code_request *request, const struct code_values *values,
		       struct code_place *place, char *name);

/*
 * Find the fields that the request's predicates and sums are about, among the place's; what is not
 * yet becomes a field, too. `returns`: of a function, what it may return; NULL: there is no return.
 * A predicate of one of these, or of `duration`, makes the place one of a single event at the
 * return; the caller then adds the returns. 0; -WM_E_NO_PARAMETER, -WM_E_FIELD_TYPE and the errors
 * of code_fields_choose(), with words about it in detail[CODE_DETAIL_BYTES].
 */
int code_predicates_choose(const struct code_request *request, const struct code_values *values,
			   struct code_field *returns, unsigned int return_count,
			   struct code_place *place, char *detail);

/* Write them as a detour's record has them. `to` has room for PREDICATES_MAX. */
void code_predicates_write(const struct code_place *place, struct predicate *to);

/* The same of the place's sums, which it has; `to` has room for SUM_FIELDS_MAX. */
void code_sums_write(const struct code_place *place, struct sum_field *to);

/*
 * Give a field another type (WM_TYPE_*), as far as what it is read from can hold it. 0,
 * -WM_E_FIELD_TYPE.
 */
int code_field_retype(struct code_field *field, uint8_t type);

#endif
