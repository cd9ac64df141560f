/* SPDX-License-Identifier: MIT */
/* A module's variables, by their names, and their locations. */
#ifndef TARGET_EXPRESSION_VARIABLE_H
#define TARGET_EXPRESSION_VARIABLE_H

#include "target/expression/local_frame.h"
#include "target/expression/scope.h"
#include "target/expression/watch_place.h"

#include <stdint.h>

struct variable {
	Dwarf_Die die;
	char path[SCOPE_PATH_MAX];
	const char *source; /* the file's, as debug information has it; "" */
	unsigned int line;
	const char *linkage; /* what the linker calls it */
	int is_external;     /* seen by other modules, as far as debug information says */
	enum watch_base base;
	uint64_t start;		  /* as linked, or from the thread pointer, or from the CFA */
	struct frame_place frame; /* of WATCH_IN_FRAME */
	const char *why;	  /* why it is in no frame; "" */
};

/*
 * Find the variable that the expression's base names. 0; -ENOENT: the module describes no such
 * variable; -WM_E_NO_DEBUG: it describes no variables; -WM_E_WATCH_SEVERAL and the like, as
 * expression_place_find(). With -WM_E_WATCH_EXTERN the variable is filled, except for its location.
 */
int variable_find(struct variable *variable, struct code_file *file, const struct watch_expr *expr,
		  struct watch_trouble *trouble);

/*
 * Find a variable's location by its description: 0, -WM_E_WATCH_OPTIMISED, -WM_E_WATCH_REGISTER,
 * -WM_E_WATCH_CONSTANT, -WM_E_WATCH_SPLIT, -WM_E_WATCH_LOCAL, -WM_E_WATCH_THREAD (of a library's),
 * -WM_E_WATCH_EXTERN.
 */
int location_find(Dwarf_Die *die, struct code_file *file, enum watch_base *base, uint64_t *start);

/* Why an expression is no address that is always the same: one of these errors. */
int location_refusal(const Dwarf_Op *ops, size_t count);

/*
 * An offset in the program's thread-local block, as a base and what is added to that: a library's
 * is its block. 0 or -WM_E_WATCH_THREAD.
 */
int location_find_thread(const struct code_file *file, uint64_t offset, enum watch_base *base,
			 uint64_t *start);

/* Is it a program, and no library? */
int location_is_program(const struct code_file *file);

/*
 * Call take() with the whole name of each variable in a module's debug information, and of each of
 * its data symbols, until it returns something else than 0, which is returned: for "did you mean"
 * (complain_near()). The texts last as long as the call.
 */
int expression_names(struct code_module *module, int (*take)(const char *name, void *data),
		     void *data);

#endif
