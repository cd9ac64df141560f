/* SPDX-License-Identifier: MIT */
/*
 * Find what to watch: from an expression (expr.h), through a module's debug information, to a few
 * steps that are done in the process when the tool arms the watch.
 *
 *         watch_expr_parse()      the text        watch_place_find()      the modules: which
 * variable, which type, which steps. No memory of the program is read.
 * watch_place_address()   the process: the steps are done, once; pointers are read
 * watch_pieces()          the debug registers that it takes       watch_test_bind()
 * (option.h) each filter, for this type   watch_type_text()       (type.h) each value
 *
 * Debug information may be hostile: all depths, counts and loops are bounded.
 *
 * A thread-local variable is refused without `thread=TID`: each thread has its own. A local
 * variable has an address only while its frame lives: its place is relative to the frame's CFA.
 */
#ifndef CODE_WATCH_WATCH_PLACE_H
#define CODE_WATCH_WATCH_PLACE_H

#include "code/resolve.h"
#include "code/watch/expr.h"
#include "code/watch/library.h"
#include "code/watch/type.h"

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

/*
 * Follow a pointer: address = what the 8 bytes at `address` hold, plus offset. Or, with `below`, go
 * to a virtual base class: address += offset + the word so far below the virtual table that those 8
 * bytes point to.
 */
struct watch_follow {
	int64_t offset;
	uint64_t below;	  /* 0: a pointer */
	size_t at, bytes; /* the pointer in the spec's text, for who finds it null */
	/* of a container's elements (library.h): what limits them is so far from the pointer */
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

/*
 * Find it. `modules` are a process's (process/loaded.h), or a file's one. Where several have it and
 * the spec names none: the program itself goes first, as it does in linking; then a library's;
 * several libraries are -WM_E_WATCH_SEVERAL. A variable of a library that the program has a copy of
 * (a copy relocation) is the program's.
 *
 * 0; -ENOMEM; or why not, with its detail: -WM_E_WATCH_VARIABLE (no such; see watch_names()),
 * -WM_E_NO_FUNCTION and -WM_E_CHOSEN_UNSEEN (of kind x), -WM_E_WATCH_NO_MODULE (none is as @MODULE
 * says), -WM_E_WATCH_NO_DEBUG, -WM_E_WATCH_SEVERAL, -WM_E_WATCH_EXTERN, -WM_E_WATCH_OPTIMISED,
 * -WM_E_WATCH_REGISTER, -WM_E_WATCH_CONSTANT, -WM_E_WATCH_SPLIT, -WM_E_WATCH_THREAD,
 * -WM_E_WATCH_LOCAL, -WM_E_WATCH_MEMBER, -WM_E_WATCH_AMBIGUOUS, -WM_E_WATCH_NO_STRUCT,
 * -WM_E_WATCH_NO_ARRAY, -WM_E_WATCH_BOUNDS, -WM_E_WATCH_NO_POINTER, -WM_E_WATCH_VOID,
 * -WM_E_WATCH_INCOMPLETE, -WM_E_WATCH_FUNCTION, -WM_E_WATCH_DATA, -WM_E_WATCH_LENGTH,
 * -WM_E_WATCH_LARGE (no place could be had for it, whatever its address), -WM_E_WATCH_DAMAGED. With
 * -WM_E_WATCH_LARGE alone the place is filled, for who wants to show it. Release also after an
 * error.
 */
int watch_place_find(struct watch_place *place, const struct watch_expr *expr,
		     struct code_module *const *modules, size_t module_count,
		     struct watch_trouble *trouble);
void watch_place_release(struct watch_place *place);

/*
 * Do the steps. `memory` may be NULL if no step follows a pointer. Only WATCH_IN_THREAD needs
 * `thread_pointer`; for WATCH_IN_BLOCK it is the block. Returns 0, or:
 * - -WM_E_WATCH_NULL;
 * - -WM_E_WATCH_UNMAPPED: the pointer that was followed is no address that can be read;
 * - -WM_E_WATCH_LOCAL: WATCH_IN_FRAME has no address of its own;
 * - -WM_E_WATCH_KERNEL: an address that is not the program's;
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
size_t watch_pieces(uint64_t address, uint64_t bytes, struct watch_piece pieces[WATCH_REGISTERS]);

/* -WM_E_WATCH_LARGE, in words, for who got more than WATCH_REGISTERS; else 0. */
int watch_pieces_check(uint64_t address, uint64_t bytes, struct watch_trouble *trouble);

/*
 * Call take() with the whole name of each variable in a module's debug information, and of each of
 * its data symbols, until it returns something else than 0, which is returned: for "did you mean"
 * (complain_near()). The texts last as long as the call.
 */
int watch_names(struct code_module *module, int (*take)(const char *name, void *data), void *data);

/* A variable of a module's debug information. Several may share a name, or a place. */
struct watch_named {
	const char *name; /* "shop::next_id::last" */
	const char *unit; /* the source file that was compiled; NULL: unknown */
	enum watch_base base;
	uint64_t start; /* as linked, or from the base */
};

/* As watch_names(), of the variables that debug information describes. */
int watch_variables(struct code_module *module,
		    int (*take)(const struct watch_named *named, void *data), void *data);

/*
 * As watch_names(), of the members of what an expression names: those of anonymous members and of
 * base classes too, but no static ones. 0, what take() returned, or an error of watch_place_find();
 * -WM_E_WATCH_NO_STRUCT: it has no members.
 */
int watch_members(const struct watch_expr *expr, struct code_module *const *modules,
		  size_t module_count, int (*take)(const char *name, void *data), void *data,
		  struct watch_trouble *trouble);

#endif
