/* SPDX-License-Identifier: MIT */
/*
 * A module's DWARF, from the file itself or the separate debug file. What libdw is given was read
 * into memory: a file that is cut short meanwhile is an error and no signal.
 */
#ifndef TARGET_CODE_DWARF_H
#define TARGET_CODE_DWARF_H

#include "target/code/enumerator.h"
#include "target/code/file.h"

#include <elfutils/libdw.h>
#include <limits.h>

/* A function's description, by its first address. */
struct code_dwarf_entry {
	uint64_t address; /* as linked in the module */
	Dwarf_Die die;	  /* with -gsplit-dwarf it is in another file than the unit's code */
};

/* Where the source declares something. */
struct code_declared {
	const char *source; /* as debug information has it; "" */
	const char *folder; /* where the compiler was; NULL: code_dwarf_folder() */
	unsigned int line;  /* 0: unknown */
	Dwarf_CU *unit;	    /* NULL: unknown */
};

struct code_dwarf {
	Elf *elf;
	Dwarf *dwarf; /* NULL: no DWARF, or damaged */
	/* the file that it shares debug information with; NULL: none, or not found */
	struct code_file *shared;
	Elf *shared_elf;
	Dwarf *shared_dwarf;
	int64_t bias; /* added to its addresses gives the module's, as linked */
	struct code_dwarf_entry *functions; /* by address, once somebody asked */
	size_t function_count, function_room;
	int has_functions;
	struct code_enumerations enumerations;
	const Dwarf_CU *split; /* the last that code_dwarf_folder() was asked for, and its answer */
	const char *split_folder;
	int may_open; /* split files that it names: only root and this user can write to the file */
	char folder[PATH_MAX]; /* of that file, where libdw looks for them first */
	Dwarf_Off *opened;     /* units whose split files were read in a container, in order */
	size_t opened_count, opened_room;
};

/*
 * The file's DWARF, opened at the first call; the file owns it. NULL: no DWARF.
 */
struct code_dwarf *code_dwarf_of(struct code_file *file);

/*
 * The description of the function that begins at an address; of several, the one with that linkage
 * name. 0, or -ENOENT.
 */
int code_dwarf_function(struct code_file *file, uint64_t address, const char *name, Dwarf_Die *die);

/* Its name to the linker, also of what it is an instance of; NULL: unknown. */
const char *code_dwarf_linkage(Dwarf_Die *die);

/*
 * In a function's own copy, which has its parameters in another order and not all of them, find
 * that of the original's. 0 or -ENOENT.
 */
int code_dwarf_concrete(Dwarf_Die *function, Dwarf_Die *parameter, Dwarf_Die *concrete);

/* Whether its value is one expression, and no list of them. */
int code_dwarf_is_expression(Dwarf_Attribute *attribute);

/* Whether a source's path ends with another, part by part: src/table.c with table.c, ./table.c. */
int code_dwarf_source_is(const char *path, const char *wanted);

/* By the description itself, or by the one that it is an instance of. */
void code_dwarf_declared(Dwarf_Die *die, struct code_declared *declared);

/* The folder of a unit in a file of its own, which the module's file has. NULL: unknown. */
const char *code_dwarf_folder(struct code_file *file, const Dwarf_CU *unit);

/* Whether a path needs the folder: libdw puts some behind it, and others not. */
int code_dwarf_is_apart(const char *path, const char *folder);

/* Replace the description of a unit by that in its own file, if there is one (-gsplit-dwarf). */
void code_dwarf_split(const struct code_file *file, Dwarf_Die *unit);

/*
 * The unit after `unit` (NULL: the first), and its description; with -gsplit-dwarf, from the unit's
 * own file. 0; 1: not found.
 */
int code_dwarf_unit(const struct code_file *file, Dwarf *dwarf, Dwarf_CU **unit, Dwarf_Die *die);

/*
 * Go to the next description of the same level. It must be behind this one: a forged chain has no
 * end. 0 or -ENOENT.
 */
int code_dwarf_next(Dwarf_Die *die);

/*
 * Name a file that holds a unit of the module and was not read: "; /src/a.dwo, with debug
 * information, was not read", and the remedy if there is one. 1; 0: no such file.
 */
int code_dwarf_missing(struct code_file *file, char *words, size_t room);

/* NULL: does nothing. */
void code_dwarf_close(struct code_dwarf *dwarf);

#endif
