/* SPDX-License-Identifier: MIT */
/* Which functions the compiler put in line at an address, by debug information. */
#ifndef TARGET_CODE_INLINED_H
#define TARGET_CODE_INLINED_H

#include "target/code/file.h"

#include <stddef.h>
#include <stdint.h>

#define CODE_INLINED_MAX 32 /* nested; what is deeper is left out */
#define CODE_INLINED_NAME_BYTES 256

/* A function whose body is in another, and the line that calls it there. Texts are the file's. */
struct code_inlined {
	const char
		*linkage; /* its name to the linker; NULL: not known, as of most static functions */
	char name[CODE_INLINED_NAME_BYTES]; /* then: "ns::f", or "" */
	const char *source; /* of the call, as debug information has it; NULL: not known */
	const char *folder; /* that the compiler was in; NULL: not known */
	unsigned int line;
};

/*
 * The inlined functions whose code has the instruction at an address, as linked: the innermost
 * first. The function that holds the code is not among them. Returns how many; 0 also without debug
 * information.
 */
size_t code_inlined_at(struct code_file *file, uint64_t address,
		       struct code_inlined all[CODE_INLINED_MAX]);

#endif
