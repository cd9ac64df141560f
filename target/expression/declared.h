/* SPDX-License-Identifier: MIT */
/*
 * Types as debug information declares them: what they are made of, how large they are, what they
 * are called. Whatever is wrong with them, each call ends soon, and says so.
 */
#ifndef TARGET_EXPRESSION_DECLARED_H
#define TARGET_EXPRESSION_DECLARED_H

#include "target/code/dwarf.h"

#include <stddef.h>
#include <stdint.h>

#define DECLARED_NAME_MAX 256
#define DECLARED_MEMBERS_MAX 65536 /* looked at for one name */

/* A type: a description, and of an array that was indexed, how many of its dimensions are gone. */
struct declared {
	Dwarf_Die die;
	unsigned int dimension;
	int language; /* DW_LANG_* of who uses it: units that several share have none; 0: unknown */
};

/* A member, or a base class in place of one. */
struct declared_member {
	const char *name; /* NULL: an anonymous one */
	struct declared type;
	uint64_t offset;   /* bytes, in what it is a member of */
	unsigned int bits; /* of a bit-field; 0: not a bit-field */
	unsigned int bit;  /* its first bit, from the lowest of the byte at `offset` */
	int is_base;
	int is_static;	/* a variable of its own, elsewhere: it has no offset */
	int is_virtual; /* a virtual base class: each object has it at another offset */
	uint64_t below; /* how far below the virtual table that offset is; 0: unknown */
};

/*
 * The type of a variable, a member, a pointer's target, an element; the language is left as it was.
 * 0; -ENOENT: void; -WM_E_WATCH_DAMAGED.
 */
int declared_of(Dwarf_Die *die, struct declared *type);

/*
 * Take off what adds no structure: typedef, const and the like. Replace a mere declaration by its
 * type, out of any unit of the file (NULL: don't look). 0; -ENOENT: void; -WM_E_WATCH_DAMAGED.
 */
int declared_peel(struct declared *type, const struct code_file *file);

/* Of a peeled type: DW_TAG_*. */
int declared_tag(const struct declared *type);
int declared_is_record(const struct declared *type); /* structure, class, union */

/*
 * Of any type. 0; -ENOENT: it has none (void, a function); -WM_E_NO_DEBUG: it is not defined;
 * -WM_E_WATCH_DAMAGED.
 */
int declared_bytes(const struct declared *type, uint64_t *bytes);

/*
 * Of a peeled array: its elements' type, how far they are apart, the first index and the count;
 * UINT64_MAX: unknown. 0, -WM_E_NO_DEBUG, -WM_E_WATCH_DAMAGED; -WM_E_WATCH_TYPE: a descriptor has
 * its place and its bounds when the program runs.
 */
int declared_element(const struct declared *array, struct declared *element, uint64_t *bytes,
		     int64_t *lowest, uint64_t *count);

/*
 * Whether it has several dimensions, and neighbours in memory differ in the first index, as in
 * Fortran. Elements that agree in the first index are then apart: declared_bytes() of such a part
 * returns -WM_E_WATCH_TYPE.
 */
int declared_is_by_columns(const struct declared *array);

/*
 * Call visit() for each member of a peeled record, in order: base classes and static members too.
 * If it returns other than 0, stop and return that.
 */
int declared_members(const struct declared *record,
		     int (*visit)(const struct declared_member *member, void *data), void *data);

/* The type as C writes it, in name[bytes]: "struct node *", "int [4]", "void (*)(int)". */
void declared_name(const struct declared *type, char *name, size_t bytes);

#endif
