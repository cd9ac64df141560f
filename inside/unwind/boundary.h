/* SPDX-License-Identifier: MIT */
/*
 * Where the instruction begins that ends at an address. x86 code can't be read backwards: 48 89 07
 * ends as 89 07 does. So read the code from its function's start, which is in the module's
 * .eh_frame_hdr, up to there; once for each address, then the result is kept with the bytes.
 *
 * A module may go at any time: the kernel reads bytes for us that are not known to have just run,
 * if it may be asked (careful.h). Without such a table, as in generated code, the result is
 * unknown.
 */
#ifndef INSIDE_UNWIND_BOUNDARY_H
#define INSIDE_UNWIND_BOUNDARY_H

#include <stdint.h>

#define BOUNDARY_MODULES_MAX 512

/*
 * Bytes of the instruction that ends at `end`, where a thread now is; 0: not known. *is_start: a
 * function begins at `end`, so that it was not that instruction which led there. Any thread. Hit
 * path.
 */
unsigned int boundary_before(uintptr_t end, int *is_start);

/* Whether an address is in some module's code. Likewise. */
int boundary_is_code(uintptr_t address);

/* The .eh_frame_hdr of the module whose code is at an address; 0: not found. Likewise. */
uintptr_t boundary_table(uintptr_t address);

/*
 * A number that changes with each module that comes or goes. Data from a module's tables is valid
 * while it stays the same. Likewise.
 */
uint32_t boundary_epoch(void);

/*
 * A module came, or goes, with its executable part and its .eh_frame_hdr; 0: it has none. Control
 * side.
 */
void boundary_add(uintptr_t start, uintptr_t end, uintptr_t table);
void boundary_remove(uintptr_t start);

#endif
