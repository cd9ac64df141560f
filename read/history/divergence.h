/* SPDX-License-Identifier: MIT */
/*
 * Where two threads' trails part.
 *
 * These differences between two runs of the same path are harmless, and counted:
 *
 *	- where code and data lie: blocks are compared as read/history/alike.h does
 *	- where blocks are cut, and when the thread lost the processor
 *	- signals that came at another moment, with what their handlers did
 *	- results of system calls, and calls made again after a signal
 *	- another way within libraries that do what depends on addresses, on the environment or on
 *	  the time, like the C library's and the loader's, where both return to the same caller and
 *	  have run no other code meanwhile
 *
 * The first other difference is the divergence.
 */
#ifndef READ_HISTORY_DIVERGENCE_H
#define READ_HISTORY_DIVERGENCE_H

#include "read/history/alike.h"
#include "trace/trail/path.h"

#include <stddef.h>
#include <stdint.h>

enum divergence_kind {
	DIVERGENCE_NONE,  /* the same, as far as both go */
	DIVERGENCE_WAY,	  /* other code */
	DIVERGENCE_EVENT, /* something else came between, or to one of them only */
};

enum divergence_harmless_kind {
	HARMLESS_LIBRARY, /* name: the function */
	HARMLESS_SIGNAL,  /* number */
	HARMLESS_RESULT,  /* number of the system call */
	HARMLESS_AGAIN,	  /* the same */
};

struct divergence_harmless {
	enum divergence_harmless_kind kind;
	const char *function, *module; /* the image's; may be NULL */
	int64_t number;
	uint64_t count;
	uint64_t blocks[2]; /* on the detours */
};

#define DIVERGENCE_HARMLESS_MAX 256 /* kept apart; the last is for all others */

struct divergence_options {
	int strict; /* only a different code address is harmless */
	int all;    /* nor is another way within libraries */
	/* functions and modules where it is too, as name_match() takes them */
	const char *const *harmless;
	size_t harmless_count;
	/* called for each step, with the block that A is at and how many it has; NULL: not */
	void (*pulse)(uint64_t done, uint64_t all);
};

struct divergence {
	enum divergence_kind kind;
	uint64_t blocks, instructions;		/* that are the same before it, detours left out */
	struct trail_cursor at[2];		/* what comes next on each, from there on */
	uint32_t from[2];			/* bytes of the block there that are the same yet */
	const struct trail_table *parted_in[2]; /* the table of the block with: */
	uint64_t parted[2];			/* the last instruction that is the same; 0: none */
	int is_over[2];				/* the recording was over: the rest is unknown */
	int is_unsure;				/* blocks were missing */
	uint64_t unsure_at[2];			/* after so many blocks */
	struct divergence_harmless *harmless;
	size_t harmless_count;
	uint64_t harmless_total;
};

/*
 * Compare two trails, in processes whose images these are. 0 or -ENOMEM. Release in any case; what
 * `divergence` points to is valid as long as the trails and the images are.
 */
int divergence_find(struct divergence *divergence, struct alike *alike,
		    const struct trail_path *const paths[2], struct image *const images[2],
		    const struct divergence_options *options);
void divergence_release(struct divergence *divergence);

#endif
