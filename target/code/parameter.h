/* SPDX-License-Identifier: MIT */
/*
 * A function's parameters and result, by debug information: names, types, and where each is at the
 * function's first instruction.
 *
 * The ABI says where, for C, C++ and languages that pass arguments like them. Otherwise only the
 * compiler's own words count: a location that is a register at the first instruction. That is so in
 * other languages, and where the compiler changed a function's parameters, as it may if it knows
 * all callers. GCC marks such a change in the function's name. LLVM does not: for its local
 * functions, the code must prove that each parameter still exists.
 */
#ifndef TARGET_CODE_PARAMETER_H
#define TARGET_CODE_PARAMETER_H

#include "target/code/file.h"
#include "target/code/probe_fields.h"

#include <stdint.h>

struct code_parameters {
	struct code_values values;
	struct code_field returns[CODE_RETURNS_MAX];
	unsigned int return_count; /* 0: nothing that a field can hold */
	int has_result;		   /* as debug information says, held by fields or not */
	int is_changed_copy;	   /* by the compiler, as its name says */
	const char *source;	   /* the file's, as debug information has it; "" if unknown */
	unsigned int line;
	int never_returns;
};

/*
 * The function that begins at an address and has that linkage name among several there. is_local:
 * its symbol is local, so the compiler may have known all of its callers. Returns 1; 0 when debug
 * information doesn't describe it, and the caller may use the ABI's registers; -WM_E_FOREIGN_CALL
 * when no debug information describes it, and the ABI's registers are wrong.
 */
int code_parameters_read(struct code_parameters *parameters, struct code_file *file,
			 uint64_t address, const char *name, int is_local);

#endif
