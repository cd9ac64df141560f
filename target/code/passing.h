/* SPDX-License-Identifier: MIT */
/*
 * How the System V psABI for x86-64 passes values of a type: its section "Parameter Passing", and
 * for C++ the Itanium ABI's rule that what isn't trivial goes by reference.
 */
#ifndef TARGET_CODE_PASSING_H
#define TARGET_CODE_PASSING_H

#include "target/code/enumerator.h"

#include <elfutils/libdw.h>
#include <stdint.h>

enum passing_class {
	CLASS_NONE,
	CLASS_INTEGER,
	CLASS_SSE,
	CLASS_SSE_UP,
	CLASS_X87,
	CLASS_X87_UP,
	CLASS_MEMORY,
};

/* What a type of uncertain passing may use, or not: a mask. */
enum passing_doubt {
	DOUBT_INTEGERS = 1,
	DOUBT_VECTORS = 2,
	DOUBT_STACK = 4,
	DOUBT_ALL = 7,
};

#define PASSING_MEMBERS_MAX 16

/* A member of a structure that a field can hold; of an inner structure too. */
struct passing_member {
	char name[48]; /* what follows the structure's: ".x", ".inner.y" */
	uint8_t offset, bytes, type;
	const struct enumeration *names;
};

struct passing {
	uint64_t bytes;
	uint64_t alignment;
	/* of its eightbytes; CLASS_MEMORY for all of what has more */
	enum passing_class classes[2];
	int is_reference;    /* what is passed is the address of a copy */
	unsigned int doubts; /* debug information says too little about these, or is damaged */
	uint8_t type;	     /* WM_TYPE_*; 0: no value that a field can hold */
	const struct enumeration *names; /* of its values; NULL: no enumeration */
	/* None of what has more than 16 bytes; arrays and bit-fields are left out. */
	unsigned int member_count;
	struct passing_member members[PASSING_MEMBERS_MAX];
};

/*
 * Find out how a type is passed. Takes any DIE; one that is not a type's is uncertain. The names of
 * values live as long as `enumerations`.
 */
void passing_of(Dwarf_Die *type, struct code_enumerations *enumerations, struct passing *passing);

/* How many integer and vector registers an argument takes; both 0: on the stack, or nowhere. */
void passing_registers(const struct passing *passing, unsigned int *integers,
		       unsigned int *vectors);

#endif
