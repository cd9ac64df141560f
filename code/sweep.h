/* SPDX-License-Identifier: MIT */
/*
 * One pass over all code of a module: where its instructions begin, and where anything might enter it
 * other than from the instruction before. A span of code may be replaced only if nothing enters its middle.
 *
 * What may enter: direct branches and calls of any function, found by decoding each from its start on;
 * addresses of code that instructions compute or data hold, relocated or not; tables of jumps; where
 * exceptions land; the ways of Waymark's own markers. Too many are harmless, too few are not: where a
 * function's bytes can't all be decoded, whatever could be a branch at any byte counts as one, and where
 * a function jumps to an address that it computes by rules not known here, it is said to be in doubt.
 *
 * A sweep is not written after sweep_make(): any number of threads may ask it. It costs about 50 ns for
 * each byte of code; keep one for each file.
 */
#ifndef CODE_SWEEP_H
#define CODE_SWEEP_H

#include "code/frames.h"
#include "code/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two bits for each byte of a range of code. */
struct sweep_part {
	struct image_range range;
	const uint8_t *data;
	uint64_t *starts;  /* an instruction begins */
	uint64_t *targets; /* something may come here */
};

struct sweep {
	struct image image;
	struct frames frames;
	struct sweep_part *parts; /* one for each of image.code */
	size_t part_count;
	struct image_range *doubts; /* functions with jumps that aren't understood; in order */
	size_t doubt_count;
	struct image_range *owned; /* sites of markers, which the agent writes itself; in order */
	size_t owned_count;
};

/*
 * Read a file's code. starts[count], in any order: more addresses where functions begin, those of symbols.
 * Returns 0, -WM_E_NOT_ELF, -errno. Release also after an error.
 */
int sweep_make(struct sweep *sweep, struct code_file *file, const uint64_t *starts, size_t count);
void sweep_release(struct sweep *sweep);

/* The part that holds an address, or NULL: no code. */
const struct sweep_part *sweep_part_at(const struct sweep *sweep, uint64_t address);

bool sweep_is_start(const struct sweep *sweep, uint64_t address);
bool sweep_is_target(const struct sweep *sweep, uint64_t address);

/* The nearest target from `from` up to, not with, `end`; `end` where there is none. */
uint64_t sweep_next_target(const struct sweep *sweep, uint64_t from, uint64_t end);

/* The instruction before one, if they touch; 0: none. */
uint64_t sweep_previous(const struct sweep *sweep, uint64_t address);

/* Whether the function at an address jumps somewhere not known. */
bool sweep_is_doubtful(const struct sweep *sweep, uint64_t address);

/* Whether a marker's site lies in [start, end). */
bool sweep_is_owned(const struct sweep *sweep, uint64_t start, uint64_t end);

#endif
