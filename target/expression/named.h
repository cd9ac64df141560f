/* SPDX-License-Identifier: MIT */
/* Types by their names, as a user writes them in a cast: "struct node *", "shop::Box<int> **". */
#ifndef TARGET_EXPRESSION_NAMED_H
#define TARGET_EXPRESSION_NAMED_H

#include "target/expression/declared.h"

#include <stddef.h>

/* A cast in a text: its type's name without "*", and how many of those follow. */
struct named_cast {
	size_t at, bytes;
	unsigned int pointers;
};

/*
 * Whether text[at..end) begins with a cast: returns the place behind its closing bracket. 0: no
 * bracket is there, or it is around an expression.
 */
size_t named_cast_read(const char *text, size_t at, size_t end, struct named_cast *cast);

/*
 * Find what a pointer of that type points to. `pointers` is 0 for a type that is itself a pointer,
 * by a typedef. If types of that name differ in size, that of the unit of `near` is meant (NULL:
 * none is). 0; -ENOENT; -WM_E_WATCH_TYPE; -WM_E_WATCH_SEVERAL; -WM_E_WATCH_DAMAGED.
 */
int named_find(const char *name, unsigned int pointers, const Dwarf_Die *near,
	       const struct code_file *file, struct declared *target);

#endif
