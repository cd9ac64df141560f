/* SPDX-License-Identifier: MIT */
/*
 * Stacks of functions, each kept once: another stack and one function more. Below the functions
 * are names, as of a program and a thread. One thread at a time uses them.
 */
#ifndef READ_HISTORY_STACKS_H
#define READ_HISTORY_STACKS_H

#include "base/slots.h"
#include "base/texts.h"
#include "read/history/functions.h"

#include <stddef.h>
#include <stdint.h>

#define STACKS_ROOT 0u /* the empty stack */

struct stacks_one {
	const struct function *function; /* the innermost; NULL: a name */
	const char *name;		 /* then; kept by stacks_name() */
	uint32_t outer;
	uint32_t process; /* the function's, as the caller numbers them */
	uint32_t depth;	  /* functions and names */
	uint64_t weight;  /* the caller's; 0 in a new one */
};

struct stacks {
	struct stacks_one *all;
	size_t count, room;
	uint32_t depth; /* of the deepest */
	struct slots slots;
	struct texts names;
};

/* 0 or -ENOMEM. Release also after an error. */
int stacks_init(struct stacks *stacks);
void stacks_release(struct stacks *stacks);

/* A name's one copy, valid until the release; NULL: no memory. */
const char *stacks_name(struct stacks *stacks, const char *name);

/* The stack of `outer` and a function or, with `function` NULL, a kept name. 0 or -ENOMEM. */
int stacks_of(struct stacks *stacks, uint32_t outer, const struct function *function,
	      uint32_t process, const char *name, uint32_t *number);

#endif
