/* SPDX-License-Identifier: MIT */
/*
 * Walks the trees of debug information without trust: depth and time are bounded, however they
 * nest. Also names a description in them, with all the scopes around it.
 */
#ifndef TARGET_EXPRESSION_SCOPE_H
#define TARGET_EXPRESSION_SCOPE_H

#include "target/code/dwarf.h"

#include <stddef.h>

#define SCOPE_LEVELS_MAX 128
#define SCOPE_PATH_MAX 1024

/* A description and the scopes around it: levels[0] is the unit, levels[level] itself. */
struct scope {
	Dwarf_Die levels[SCOPE_LEVELS_MAX];
	int level;
};

/*
 * Visit the descriptions in units and namespaces; with `deep` also in classes, functions and
 * blocks. A return of visit() other than 0 ends it and is returned; so does the file's pulse. No
 * compiler nests deeper than SCOPE_LEVELS_MAX: the rest of such a unit is left out. The scope is
 * valid for the call. Nothing is visited where code_dwarf_of() found none, or before it was called.
 */
int scope_walk(const struct code_file *file, int deep,
	       int (*visit)(const struct scope *scope, void *data), void *data);

/* Likewise, then in the file that it shares debug information with. */
int scope_walk_all(const struct code_file *file, int deep,
		   int (*visit)(const struct scope *scope, void *data), void *data);

/* Find the scopes around a description. 0 or -ENOENT. */
int scope_of(Dwarf_Die *die, struct scope *scope);

/*
 * "shop::next_id::last": namespaces, classes and functions, without anonymous ones and, unless
 * `with_inline`, without inline namespaces. Copies and definitions apart are called as what they
 * are of. Returns the bytes; 0: it has no name, or none that fits in path[SCOPE_PATH_MAX].
 */
size_t scope_path(const struct scope *scope, int with_inline, char *path);

/*
 * A name for comparison: without spaces and anonymous namespaces, and with integers' names in their
 * short form, so that "Box<long int>" equals "Box<long>". Cut to `room`.
 */
void scope_squeeze(const char *name, char *squeezed, size_t room);

/* "unsigned long" for "long unsigned int", and so on; other names are returned as they are. */
const char *scope_short_type(const char *name);

/* The part behind the last "::" that is outside of template brackets. */
const char *scope_last_part(const char *path);

/*
 * What a description of a copy, or of a definition apart from its declaration, is of. 1 if it is
 * such a one.
 */
int scope_origin(Dwarf_Die *die, Dwarf_Die *origin);

#endif
