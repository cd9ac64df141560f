/* SPDX-License-Identifier: MIT */
/*
 * The rows of call frame information (base/cfi.h) of this process's modules, by address. They have
 * a cache: to find and read one takes many system calls (careful.h). Hit path.
 */
#ifndef INSIDE_WATCH_UNWIND_ROW_H
#define INSIDE_WATCH_UNWIND_ROW_H

#include "base/cfi.h"

enum unwind_row {
	UNWIND_ROW_FOUND,
	UNWIND_ROW_SIGNAL, /* a signal handler returns there, to the kernel's frame */
	UNWIND_ROW_NONE,   /* no table covers the address */
	UNWIND_ROW_BAD,	   /* one does, and cannot be read or understood */
};

/* The row for the state before the instruction at `pc` runs. Any thread. */
enum unwind_row unwind_row(const struct cfi_reader *reader, uint64_t pc, struct cfi_row *row);

#endif
