/* SPDX-License-Identifier: MIT */
/*
 * Whether a function can see its return address, by its code: it reads the word on the stack, it
 * calls a profiler that does (mcount, of -pg), or it ends in a jump to a function that does so.
 * What it calls has a return address of its own.
 *
 * Functions of libc are known by their names (unpatchable.c), those of other modules of the process
 * by their code. A jump to an address that a register or a variable holds may lead to one that the
 * module has the address of (struct sweep).
 */
#ifndef TARGET_CODE_RETURN_LOOK_H
#define TARGET_CODE_RETURN_LOOK_H

#include "target/code/resolve.h"
#include "target/code/sweep.h"

#include <stddef.h>

/*
 * The process, and what was found in its other modules. Zeroed but for the process. One thread at a
 * time.
 */
struct return_others {
	const struct code_process *process;
	struct return_other {
		const char *name;
		bool looks;
	} * known;
	size_t known_count, known_room;
	unsigned int depth; /* of jumps from one module to another */
};

void return_others_release(struct return_others *others);

/*
 * Of the function that begins at `start`, which has a plain frame. 0; -WM_E_RETURN_LOOKED_AT and
 * how, in detail[bytes]; -WM_E_RETURN_FRAME, without unwind information for all of it.
 */
int return_look(const struct sweep *sweep, uint64_t start, char *detail, size_t bytes);

#endif
