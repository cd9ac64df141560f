/* SPDX-License-Identifier: MIT */
/*
 * From an interrupted thread to one of its frames, by the call frame information of the modules
 * (base/cfi.h): through signal handlers, on whichever stack, and through return addresses that are
 * ours (inside/detour/return.h). All memory is read by the kernel (careful.h), so that nothing that
 * is not what it seems can do harm. Hit path.
 */
#ifndef INSIDE_UNWIND_UNWIND_H
#define INSIDE_UNWIND_UNWIND_H

#include "base/cfi.h"

#include <stdint.h>
#include <ucontext.h>

enum unwind_row {
	UNWIND_ROW_FOUND,
	UNWIND_ROW_SIGNAL, /* a signal handler returns there, to the kernel's frame */
	UNWIND_ROW_NONE,   /* no table covers the address */
	UNWIND_ROW_BAD,	   /* one does, and cannot be read or understood */
};

/* The row for the state before the instruction at `pc` runs. */
enum unwind_row unwind_row(uint64_t pc, struct cfi_row *row);

/* Whether a signal handler returns there, by its instructions. */
int unwind_is_restorer(uint64_t pc);

/*
 * Where *pc is in a return stub or a trampoline, set it to the program's address instead.
 * -1: the address is in code that the agent added to the trampoline.
 */
int unwind_translate(uint64_t *pc);

/* Follow the modules, and let hits have callers. Control side; before the first registry_scan(). */
void unwind_init(void);

enum unwind {
	UNWIND_GONE,
	UNWIND_FOUND,
	UNWIND_LOST,
	UNWIND_OURS, /* it is in one of our trampolines, or was called from there */
};

struct unwound {
	/*
	 * what the frame's function does: the instruction that it is at, or the last byte of its
	 * call
	 */
	uintptr_t pc;
	/* it was interrupted, or is the first: the instruction at `pc` is still to come */
	uint32_t is_exact;
	uint32_t depth; /* frames between: 0, it is the interrupted one itself */
};

/*
 * The frame with this CFA. UNWIND_GONE: the thread's frames end before it, so it is not alive;
 * UNWIND_LOST: unknown.
 */
enum unwind unwind_to(const ucontext_t *context, uintptr_t cfa, struct unwound *found);

/*
 * Step from a frame to its caller's, which must be above it, except from the first. Where the
 * program counter leads to is the program's: unwind_translate(). CFI_LOST: not found.
 */
enum cfi_out unwind_out(struct cfi_registers *registers, int is_first);

/*
 * Store the addresses to which the interrupted function and its callers return, innermost first; 0
 * behind the last:
 *
 *  - A signal handler's is the restorer; the next is the instruction that the signal interrupted.
 *  - In a module without call frame information they follow the frame pointers.
 *  - The last may be in no module: code that the program made, or an overwritten stack.
 */
void unwind_callers(const ucontext_t *context, uint64_t *callers, unsigned int wanted);

#endif
