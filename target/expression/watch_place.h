/* SPDX-License-Identifier: MIT */
/* The place that an expression names, and the steps to its address in a process. */
#ifndef TARGET_EXPRESSION_WATCH_PLACE_H
#define TARGET_EXPRESSION_WATCH_PLACE_H

#include "target/code/resolve.h"
#include "target/expression/expr.h"
#include "target/expression/type.h"

#include <stddef.h>
#include <stdint.h>

#define WATCH_REGISTERS 4 /* that x86-64 has, of 8 bytes each */

#define WATCH_BASES_MAX 16 /* virtual base classes on the way */

/* Each step: through a reference to a pointer. */
#define WATCH_FOLLOWS_MAX (2 * WATCH_STEPS_MAX + 2 + WATCH_BASES_MAX)

struct frame_place; /* local_frame.h */

enum watch_base {
	WATCH_IN_PROCESS, /* start is an address */
	WATCH_IN_MODULE,  /* as linked: the module's base is added */
	WATCH_IN_FRAME,	  /* from a frame's CFA: `frame` says which frames */
	WATCH_IN_THREAD,  /* the thread pointer is added, fs's base: start is below 0 */
	WATCH_IN_BLOCK,	  /* what the thread has of the module's variables is added (tls_block.h) */
};

/* How an object of the C++ library stores its number of elements. */
enum library_limit {
	LIBRARY_NO_LIMIT,
	LIBRARY_END,   /* a pointer behind the last element */
	LIBRARY_COUNT, /* a number of elements; one more, the 0 at its end, has an index too */
};

/*
 * Follow a pointer: address = what the 8 bytes at `address` hold, plus offset. Or, with `below`, go
 * to a virtual base class: address += offset + the word so far below the virtual table that those 8
 * bytes point to.
 */
struct watch_follow {
	int64_t offset;
	uint64_t below;	  /* 0: a pointer */
	size_t at, bytes; /* the pointer in the spec's text, for who finds it null */
	/* of a container's elements (steps.c): what limits them is so far from the pointer */
	enum library_limit limit;
	int64_t limit_offset;
	uint64_t index, element_bytes;
};

struct watch_place {
	enum watch_kind kind;
	enum watch_base base;
	const struct code_module *module; /* that start is of; NULL of WATCH_IN_PROCESS */
	uint64_t start;
	struct frame_place *frame; /* of WATCH_IN_FRAME; else NULL */
	struct watch_follow follows[WATCH_FOLLOWS_MAX];
	unsigned int follow_count;
	uint64_t bytes;		/* what is watched: the type's, or LEN; of kind x 1 */
	struct watch_type type; /* of kind x: WATCH_CODE, its name the function's */
	char *variable; /* its whole name: "shop::next_id::last"; the symbol's; "" of a number */
	char *source;	/* where it is declared, as debug information has it; "" if unknown */
	unsigned int line;
	const char *text; /* the expression's; it must live longer */
};

void watch_place_release(struct watch_place *place);

/*
 * Do the steps. `memory` may be NULL if no step follows a pointer. Only WATCH_IN_THREAD needs
 * `thread_pointer`; for WATCH_IN_BLOCK it is the block. Returns 0, or:
 * - -WM_E_WATCH_NULL: a pointer, or the virtual table of an object that is not constructed;
 * - -WM_E_WATCH_UNMAPPED: the pointer that was followed is no address that can be read, or the
 *   address is not the program's;
 * - -WM_E_WATCH_LOCAL: WATCH_IN_FRAME has no address of its own;
 * - what memory->read() returned.
 *
 * The caller checks whether the watched address itself is mapped: a watch needs no memory there.
 */
int watch_place_address(const struct watch_place *place, const struct code_memory *memory,
			uint64_t thread_pointer, uint64_t *address, struct watch_trouble *trouble);

/*
 * Whether the option `follow` can be: each pointer on the way takes a debug register. 0;
 * -WM_E_WATCH_OPTION, or -WM_E_WATCH_LARGE, whose detail names the pointers.
 */
int watch_follow_check(const struct watch_place *place, struct watch_trouble *trouble);

/* What one debug register watches: 1, 2, 4 or 8 bytes, naturally aligned. */
struct watch_piece {
	uint64_t address;
	uint8_t bytes;
};

/*
 * Split what is at an address into such pieces, in order; no fewer would do without watching a
 * neighbour too. Fills up to WATCH_REGISTERS of them. Returns how many it takes, which may be more:
 * then it can't be watched. `bytes` 0 takes no piece.
 */
size_t expression_pieces(uint64_t address, uint64_t bytes,
			 struct watch_piece pieces[WATCH_REGISTERS]);

/* -WM_E_WATCH_LARGE, in words, for who got more than WATCH_REGISTERS; else 0. */
int expression_pieces_check(uint64_t address, uint64_t bytes, struct watch_trouble *trouble);

#endif
