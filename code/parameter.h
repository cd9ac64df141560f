/* SPDX-License-Identifier: MIT */
/*
 * A function's parameters and result, by debug information: names, types, and where each lies at the
 * function's first instruction.
 *
 * The ABI tells where, for C, C++ and what passes arguments like them. Where the compiler has changed a
 * function's parameters, as it may for one that nobody else calls, and in other languages, only its own
 * words count: a location that is a register at the first instruction. GCC says in a function's name that
 * it did so. LLVM doesn't: of its local functions each parameter must be shown to be there still.
 */
#ifndef CODE_PARAMETER_H
#define CODE_PARAMETER_H

#include "code/field.h"
#include "code/file.h"

#include <stdint.h>

struct code_parameters {
	struct code_values values;
	struct code_field returns[CODE_RETURNS_MAX];
	unsigned int return_count; /* 0: nothing that a field can hold */
	const char *source;	   /* the file's, as debug information has it; "" if unknown */
	unsigned int line;
	int never_returns;
};

/*
 * The function that begins at an address and has that linkage name among several there; is_local: its symbol
 * is, so that the compiler may have known all of its callers. Returns 1; 0 when
 * debug information doesn't tell, and then the caller may reckon with the ABI's registers; -WM_E_FOREIGN_CALL
 * when no debug information tells, and the ABI's registers are wrong.
 */
int code_parameters_read(struct code_parameters *parameters, struct code_file *file,
			 uint64_t address, const char *name, int is_local);

#endif
