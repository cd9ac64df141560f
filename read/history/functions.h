/* SPDX-License-Identifier: MIT */
/*
 * Which function each block of a trail is of, found once for each id.
 *
 * Code without a name is of its module's one nameless function, which only a call leaves or enters:
 * such a call's function is identified by the call's target. So are the stubs of a PLT, and the
 * instructions by which markers enter the agent (abi/site.h).
 *
 * All functions live until functions_close(). Tables are all of one trace. One thread at a time
 * uses them.
 */
#ifndef READ_HISTORY_FUNCTIONS_H
#define READ_HISTORY_FUNCTIONS_H

#include "base/slots.h"
#include "read/history/image.h"
#include "trace/trail/table.h"

#include <stddef.h>
#include <stdint.h>

enum function_flags {
	FUNCTION_IS_PART = 1,	/* a piece of a function that is jumped to: foo.cold */
	FUNCTION_IS_STUB = 2,	/* of a PLT: it jumps on to what was to be called */
	FUNCTION_SETS_JUMP = 4, /* setjmp and its kin: they return more than once */
	FUNCTION_IS_ENTRY = 8,	/* of a marker into the agent: code of whatever jumps there */
};

struct function {
	const char *name;		   /* as image_place has it; NULL: not known */
	const char *linkage;		   /* to the linker; NULL: not known */
	const struct image_module *module; /* NULL: none is known there */
	uint64_t start;	 /* its first address; 0 for a module's code without a name */
	uint64_t bytes;	 /* 0: not known */
	uint32_t number; /* of all functions, from 0 on: an index */
	uint32_t flags;
	uint64_t key; /* functions.c's: what it is found by */
	uint8_t key_kind;
};

/* The known functions of a table's ids. */
struct function_map {
	const struct trail_table *table;
	const struct function **of; /* by id */
	uint32_t count;
};

struct functions {
	struct image *image;
	struct function **all;
	size_t count, room;
	struct function_map
		*maps; /* by the table's number, and one more in front that fits no table */
	size_t map_count, map_room;
	size_t last;	    /* the map that was used last */
	struct slots slots; /* of all, by their keys */
};

/* `image` is the caller's and must live longer. 0 or -ENOMEM; close in either case. */
int functions_open(struct functions *functions, struct image *image);
void functions_close(struct functions *functions);

/*
 * The function of code at an address, when blocks of that table ran (image_in()). NULL: no memory.
 */
const struct function *functions_at(struct functions *functions, const struct trail_table *table,
				    uint64_t address);

/* The same in an era of the image, which may be NULL: no memory. */
const struct function *functions_in(struct functions *functions, struct image *image,
				    uint64_t address);

/*
 * The function that a call to `address` enters, where `at` is what functions_at() says of it. NULL:
 * no memory.
 */
const struct function *functions_entered(struct functions *functions, const struct function *at,
					 uint64_t address);

/* A function of a given name that is in no module. NULL: no memory. */
const struct function *functions_named(struct functions *functions, const char *name,
				       uint64_t start);

/*
 * Whether code of `other` is the function's own: it is that, or a part of it that the compiler or
 * a marker put elsewhere.
 */
int function_holds_part(const struct function *function, const struct function *other);

static inline int function_holds(const struct function *function, const struct function *other)
{
	return function == other ||
	       (other->flags & FUNCTION_IS_ENTRY && function->module == other->module) ||
	       (other->flags & FUNCTION_IS_PART && function_holds_part(function, other));
}

int function_is_kernel(const struct function *function);

/*
 * Order of file, name and start as linked: 0 for the same function of several processes, not for
 * two of one name in a file.
 */
int function_compare(const struct function *a, const struct function *b);

/* The source's line that it begins on; zeroes: not known. */
struct image_line function_line(const struct function *function);

#define FUNCTION_TEXT_BYTES 512

/*
 * A function's name as people read it; of one without, where it begins: libx.so+0x1234, 0x7f...,
 * [libx.so] or [unknown] where not even that is known; of a PLT's stub libx.so@plt. text[bytes] is
 * room for it.
 */
const char *function_text(const struct function *function, char *text, size_t bytes);

/* functions_block(), the first time that it is asked for an id. */
const struct function *functions_block_find(struct functions *functions,
					    const struct trail_table *table, uint32_t id);

/* The function of a block that is defined. NULL: no memory. */
static inline const struct function *functions_block(struct functions *functions,
						     const struct trail_table *table, uint32_t id)
{
	const struct function_map *map = &functions->maps[functions->last];

	if (__builtin_expect(map->table == table && id < map->count && map->of[id] != NULL, 1))
		return map->of[id];
	return functions_block_find(functions, table, id);
}

#endif
