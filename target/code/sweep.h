/* SPDX-License-Identifier: MIT */
/*
 * One pass over all code of a module: where its instructions begin, and where anything might enter
 * it other than from the instruction before. A jump may replace an instruction only if nothing
 * enters its middle.
 *
 * Possible entries:
 * - direct branches and calls of any function, found by decoding each from its start on;
 * - addresses of code that instructions compute or data hold, relocated or not;
 * - tables of jumps;
 * - landing pads of exceptions;
 * - the cold paths of Waymark's own markers.
 *
 * Too many are harmless, too few are not. Where a function's bytes can't all be decoded, anything
 * that could be a branch, at any byte, counts as one. A function that jumps to an address computed
 * by rules not known here is in doubt.
 *
 * A sweep is not written after sweep_make(): any number of threads may ask it. It costs about 50 ns
 * for each byte of code; keep one for each file.
 */
#ifndef TARGET_CODE_SWEEP_H
#define TARGET_CODE_SWEEP_H

#include "target/code/frames.h"
#include "target/code/module_image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_file;
struct code_symbols;

/* Two bits for each byte of a range of code. */
struct sweep_part {
	struct image_range range;
	const uint8_t *data;
	uint64_t *starts;  /* an instruction begins */
	uint64_t *targets; /* something may come here */
};

/* Code that may not be replaced, and why: -WM_E_*. */
struct sweep_unpatchable {
	uint64_t start, end;
	int refusal;
};

/*
 * A word of the module that the loader fills with a function's address; or a profiler's own code.
 */
struct sweep_import {
	uint64_t at;
	uint64_t address; /* the module's own function, if no other module has one; 0: none */
	const char *name; /* the file's */
	bool looks;	  /* at its return address, as libc's of that name does */
	bool profiles;	  /* looks at that of its caller: mcount, of -pg; or an unwinder */
	bool is_pointer;  /* not only calls and jumps through the word need it */
};

struct return_others;

struct sweep {
	struct image image;
	struct frames frames;
	struct sweep_part *parts; /* one for each of image.code */
	size_t part_count;
	struct image_range *doubts; /* functions with jumps that aren't understood; in order */
	size_t doubt_count;
	struct sweep_unpatchable *unpatchables; /* in order */
	size_t unpatchable_count;
	struct sweep_unpatchable
		*return_excluded; /* functions whose return must be left as it is; in order */
	size_t return_excluded_count;
	struct sweep_import *imports; /* in order */
	size_t import_count, import_room;
	const char *looking_pointer;  /* what looks and a pointer may lead to; NULL: none known */
	struct return_others *others; /* the owner's (return_look.h); NULL: none */
};

/*
 * Read a file's code. Its symbols say where more functions begin, and what some of them are; NULL:
 * none. Returns 0, -WM_E_NOT_ELF, -errno. Release also after an error.
 */
int sweep_make(struct sweep *sweep, struct code_file *file, const struct code_symbols *symbols);
void sweep_release(struct sweep *sweep);

/* No more than the image, the frames and the imports. Likewise. */
int sweep_make_outline(struct sweep *sweep, struct code_file *file);

/* The part that holds an address, or NULL: no code. */
const struct sweep_part *sweep_part_at(const struct sweep *sweep, uint64_t address);

bool sweep_is_start(const struct sweep *sweep, uint64_t address);
bool sweep_is_target(const struct sweep *sweep, uint64_t address);

/* The nearest target from `from` up to, not with, `end`; `end` without one. */
uint64_t sweep_next_target(const struct sweep *sweep, uint64_t from, uint64_t end);

/* The instruction before one, if they touch; 0: none. */
uint64_t sweep_previous(const struct sweep *sweep, uint64_t address);

/* Whether the function at an address jumps somewhere not known. */
bool sweep_is_doubtful(const struct sweep *sweep, uint64_t address);

/* The refusal of what may not be replaced in [start, end); 0: all of it may. */
int sweep_unpatchable(const struct sweep *sweep, uint64_t start, uint64_t end);

/* The refusal of a return from the function that begins at an address, or 0. */
int sweep_return_excluded(const struct sweep *sweep, uint64_t address);

/* What is at an address, or NULL. */
const struct sweep_import *sweep_import_at(const struct sweep *sweep, uint64_t address);

/*
 * What a stub of the procedure linkage table leads to, or NULL: at the address there is no
 * `jmp *word(%rip)`, behind an endbr64 perhaps.
 */
const struct sweep_import *sweep_stub_import(const struct sweep *sweep, uint64_t address);

#endif
