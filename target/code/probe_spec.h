/* SPDX-License-Identifier: MIT */
/*
 * The request for a place without a marker:
 *
 *	usdt:PROVIDER:NAME[@MODULE][/FIELDS/]  either name may be a glob
 *	func:NAME[@MODULE][/FIELDS/]           as code_symbols_match() takes it
 *	addr:MODULE+OFFSET[/FIELDS/]           the address as linked, as objdump shows it: 0x1a40,
 *					       or decimal
 *	addr:SOURCE:LINE[/FIELDS/]             each place where the line's code begins
 *
 * MODULE is a file's path, its name, or its name up to ".so"; globs are taken. FIELDS are divided
 * by commas, each NAME or NAME:TYPE. Names:
 *
 *	arg1, arg2...	a USDT probe's arguments; a function's parameters or, if not described,
 *			the integer registers of the first six; at addr those registers
 *	a parameter's	by debug information; a structure has all its members, PARAMETER.MEMBER one
 *	args		all there are
 *	ret		for func: the return too
 *	rdi, eax, xmm0	for func and addr: that register
 *
 * If the request names none but ret: a USDT probe has all its arguments, a function the parameters
 * in debug information, an address none. Types: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool char ptr
 * x (as ptr) str.
 */
#ifndef TARGET_CODE_PROBE_SPEC_H
#define TARGET_CODE_PROBE_SPEC_H

#include "target/code/file.h"
#include "target/code/probe_place.h"

#include <stdint.h>

/* Behind it comes an example. */
#define SPEC_LACKS_SLASH "its fields or options have no slash behind them: "

#define REQUEST_BYTES_MAX 1024

enum code_request_kind { REQUEST_USDT, REQUEST_FUNCTION, REQUEST_OFFSET, REQUEST_LINE };

struct code_wish {
	char name[64];
	uint8_t type; /* WM_TYPE_*; 0: what the value has by itself */
};

struct code_request {
	enum code_request_kind kind;
	char *name;   /* PROVIDER:NAME, the function's, the source's; NULL for an offset */
	char *module; /* NULL: any */
	uint64_t offset;
	unsigned int line;
	struct code_wish wishes[CODE_FIELDS_MAX];
	unsigned int wish_count;
	int wants_all; /* `args` */
	int is_safe;   /* only where no uprobe of other tools can leave wrong code behind */
	int wants_return;
	uint8_t return_type; /* as a wish's */
	char wrong[192];     /* after an error: which part of the text, and what it can be; or "" */
};

/*
 * Read a spec of one of these kinds. 0, -ENOMEM, -WM_E_SPEC, -WM_E_FIELD_TYPE for an unknown type.
 * Release also after an error.
 */
int code_request_parse(struct code_request *request, const char *text);
void code_request_release(struct code_request *request);

/*
 * Whether a module, by its path in the process or an alias, may hold what is asked for. `aliases`
 * may be NULL.
 */
int code_request_takes(const struct code_request *request, const char *path,
		       const struct code_aliases *aliases);

#endif
