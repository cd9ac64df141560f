/* SPDX-License-Identifier: MIT */
/*
 * Find what to watch: from an expression (expr.h), through a module's debug information, to a few
 * steps that are done in the process when the tool arms the watch.
 *
 *	expression_parse()	the text
 *	expression_place_find()	the modules: which variable, which type, which steps. No memory of
 *				the program is read.
 *	watch_place_address()	the process: the steps are done, once; pointers are read
 *	expression_pieces()		the debug registers that it takes
 *	expression_test_bind()	(option.h) each filter, for this type
 *	expression_type_text()	(type.h) each value
 *
 * Debug information may be hostile: all depths, counts and loops are bounded.
 *
 * A thread-local variable is refused without `thread=TID`: each thread has its own. A local
 * variable has an address only while its frame lives: its place is relative to the frame's CFA.
 */
#ifndef TARGET_EXPRESSION_FIND_H
#define TARGET_EXPRESSION_FIND_H

#include "target/expression/watch_place.h"

#include <stddef.h>

/*
 * Find it. `modules` are a process's (target/process/loaded.h), or a file's one. Where several have
 * it and the spec names none: the program itself goes first, as it does in linking; then a
 * library's; several libraries are -WM_E_WATCH_SEVERAL. A variable of a library that the program
 * has a copy of (a copy relocation) is the program's.
 *
 * 0; -ENOMEM; or why not, with its detail: -WM_E_WATCH_VARIABLE (no such; see expression_names()),
 * -WM_E_NO_FUNCTION and -WM_E_CHOSEN_AT_START (of kind x), -WM_E_NO_MODULE (none is as @MODULE
 * says), -WM_E_NO_DEBUG, -WM_E_WATCH_SEVERAL, -WM_E_WATCH_EXTERN, -WM_E_WATCH_OPTIMISED,
 * -WM_E_WATCH_REGISTER, -WM_E_WATCH_CONSTANT, -WM_E_WATCH_SPLIT, -WM_E_WATCH_THREAD,
 * -WM_E_WATCH_LOCAL, -WM_E_WATCH_MEMBER, -WM_E_WATCH_TYPE, -WM_E_WATCH_SYNTAX (no bytes),
 * -WM_E_WATCH_LARGE (no place could be had for it, whatever its address), -WM_E_WATCH_DAMAGED. With
 * -WM_E_WATCH_LARGE alone the place is filled, for who wants to show it. Release also after an
 * error.
 */
int expression_place_find(struct watch_place *place, const struct watch_expr *expr,
			  struct code_module *const *modules, size_t module_count,
			  struct watch_trouble *trouble);

#endif
