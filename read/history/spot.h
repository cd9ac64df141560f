/* SPDX-License-Identifier: MIT */
/*
 * The source functions of an instruction: the inlined ones there, and the function that has the
 * code, each with its line.
 */
#ifndef READ_HISTORY_SPOT_H
#define READ_HISTORY_SPOT_H

#include "read/history/image.h"

#include <stddef.h>
#include <stdint.h>

struct spot_frame {
	const char *function; /* as people read it; NULL: not known */
	const char *source;   /* the path; NULL: not known */
	unsigned int line;    /* in it: of the instruction, or of the call of the frame before */
};

struct spot {
	struct spot_frame
		*frames;    /* the innermost first; the last has the code, the others are in line */
	size_t count;	    /* 1 or more */
	const char *module; /* the last part of its path; NULL: in none that is known */
	/* from the beginning of that function, or of the module if it is unknown */
	uint64_t offset;
	char *texts; /* of all the above */
};

/* Find out about the instruction at an address. 0 or -ENOMEM. Release also after an error. */
int spot_find(struct spot *spot, struct image *image, uint64_t address);
void spot_release(struct spot *spot);

/* Whether the address is the C library's call of rt_sigreturn(2), where signal handlers return. */
int spot_is_restorer(struct image *image, uint64_t address);

/* Whether both are the same functions at the same lines. */
int spot_is_same(const struct spot *one, const struct spot *other);

#endif
