/* SPDX-License-Identifier: MIT */
/*
 * From one frame to its caller's, by a row of call frame information (cfi.h). As that: no libc, any
 * thread.
 */
#ifndef BASE_CFI_STEP_H
#define BASE_CFI_STEP_H

#include "base/cfi.h"

/* As DWARF numbers them; the last is the program counter. */
struct cfi_registers {
	uint64_t values[CFI_REGISTERS];
	uint32_t known; /* a bit each */
	/* the instruction at the program counter is still to come: it is no return address */
	int is_exact;
};

enum cfi_out {
	CFI_OUT,  /* the registers are the caller's */
	CFI_END,  /* there is no caller */
	CFI_LOST, /* it is unknown */
};

/* `cfa` is of this frame; `reader` reads the stack. */
enum cfi_out cfi_step(const struct cfi_reader *reader, const struct cfi_row *row, uint64_t cfa,
		      struct cfi_registers *registers);

/* 0, or -1: its rules are not understood here. */
int cfi_cfa(const struct cfi_reader *reader, const struct cfi_row *row,
	    const struct cfi_registers *registers, uint64_t *cfa);

/*
 * A handler has returned to where the kernel restores what it interrupted: take that from the
 * stack. 0; -1: it is not so.
 */
int cfi_interrupted(const struct cfi_reader *reader, struct cfi_registers *registers);

#endif
