/* SPDX-License-Identifier: MIT */
/*
 * What the headers of libc and libm say of their functions, for libraries without debug
 * information: the parameters' names and types, which constants they take, what the result says of
 * an error. The build reads the headers (prototypes.py).
 */
#ifndef TARGET_CODE_PROTOTYPE_H
#define TARGET_CODE_PROTOTYPE_H

#include "target/code/parameter.h"

/*
 * Fill the values and the results of a function of libc or libm, by its name to the linker. Returns
 * 1; 0: the file is another library's, no header declares the function, or a parameter is passed
 * otherwise than in registers. The names of constants live as long as the file.
 */
int code_prototype_read(struct code_parameters *parameters, struct code_file *file,
			const char *name);

/* The row of the table for a function, or NULL: for tests. */
const char *code_prototype_row(const char *name);

#endif
