/* SPDX-License-Identifier: MIT */
/*
 * The values of a function's parameters at an instruction, by debug information; and the step from
 * a frame to its caller's, by call frame information. Both work on registers and memory that
 * somebody recorded.
 *
 * Debug information may be hostile: all depths, counts and loops are bounded.
 */
#ifndef TARGET_CODE_ARGUMENT_H
#define TARGET_CODE_ARGUMENT_H

#include "base/cfi.h"
#include "target/code/file.h"
#include "target/expression/type.h"

#include <stdint.h>

/* A frame of a thread, as somebody recorded it. */
struct code_frame {
	struct code_file *file; /* the module that it is in; NULL: none that can be had */
	uint64_t base;		/* added to addresses as linked gives the process's */
	uint64_t start;		/* where its function begins, in the process; 0: unknown */
	const char *name;	/* the function's linkage name; "" */
	struct cfi_registers registers;
	struct cfi_reader memory;	 /* the process's */
	const struct code_frame *caller; /* NULL: unknown */
};

/* An address in the instruction that the frame is at, in the process. */
static inline uint64_t code_frame_at(const struct cfi_registers *registers)
{
	return registers->values[CFI_RETURN] - (registers->is_exact ? 0 : 1);
}

/* The registers of the frame's caller. 0; -ENOENT: it has none, or that can't be found out. */
int code_frame_up(const struct code_frame *frame, struct cfi_registers *up);

/*
 * Call take() for each parameter of the frame's function, in order. `value`: as many bytes as the
 * type has; NULL, and no type: its value is nowhere, or was not recorded. What take() returns other
 * than 0 ends it. 0, that, -ENOENT: debug information has no such function; -ENOMEM.
 */
int code_arguments(const struct code_frame *frame,
		   int (*take)(const char *name, const struct watch_type *type, const void *value,
			       void *data),
		   void *data);

#endif
