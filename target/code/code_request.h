/* SPDX-License-Identifier: MIT */
/*
 * The request for places without a marker, as a spec of usdt:, func: or addr: has it.
 *
 * The names of values that are wished for:
 *
 *	arg1, arg2...	a USDT probe's arguments; a function's parameters or, if not described,
 *			the integer registers of the first six; at addr those registers
 *	a parameter's	by debug information; a structure has all its members, PARAMETER.MEMBER one
 *	rdi, eax, xmm0	for func and addr: that register
 *
 * If the request names none: a USDT probe has all its arguments, a function the parameters in debug
 * information, an address none.
 *
 * A request may give its events a name, and each value another name: so an old marker's event can
 * be had from code that has the marker no more.
 */
#ifndef TARGET_CODE_CODE_REQUEST_H
#define TARGET_CODE_CODE_REQUEST_H

#include "abi/predicate.h"
#include "target/code/file.h"
#include "target/code/probe_place.h"

#include <stdint.h>

enum code_request_kind { REQUEST_USDT, REQUEST_FUNCTION, REQUEST_OFFSET, REQUEST_LINE };

#define CODE_NAME_BYTES 64

struct code_wish {
	char name[CODE_NAME_BYTES];  /* of the field */
	char value[CODE_NAME_BYTES]; /* that it has; mostly the same */
	uint8_t type;		     /* WM_TYPE_*; 0: what the value has by itself */
};

#define CODE_REPLACED ":replaced" /* behind the function's name, of DETOUR_REPLACE */

struct code_request {
	enum code_request_kind kind;
	char *name;   /* PROVIDER:NAME, the function's, the source's; NULL for an offset */
	char *module; /* NULL: any */
	/* what its events are called, where the user says so; else "" */
	char subsystem[CODE_NAME_BYTES], event[CODE_NAME_BYTES];
	uint64_t offset;
	unsigned int line;
	struct code_wish wishes[CODE_FIELDS_MAX];
	unsigned int wish_count;
	int wants_all;	  /* `args` */
	int is_exact;	  /* of a handler: the wishes alone, also where it has none */
	int is_once;	  /* likewise: one event, at the return */
	int replaces;	  /* likewise: of the calls that a handler replaces (abi/detour.h) */
	uint32_t callers; /* bt=N; 0: no callchain */
	int is_safe;	  /* only where no uprobe of other tools can leave wrong code behind */
	int wants_return;
	uint8_t return_type;		   /* as a wish's */
	char return_name[CODE_NAME_BYTES]; /* in place of "ret"; "": none */
	/* all must hold for a hit to be recorded; what they name becomes a field, too */
	struct predicate predicates[PREDICATES_MAX];
	unsigned int predicate_count;
	struct code_sums sums;
};

void code_request_release(struct code_request *request);

/*
 * Whether a module, by its path in the process or an alias, may hold what is asked for. `aliases`
 * may be NULL.
 */
int code_request_takes(const struct code_request *request, const char *path,
		       const struct code_aliases *aliases);

#endif
