/* SPDX-License-Identifier: MIT */
/*
 * The names of an enumeration's values. A value has a name if an enumerator is equal to it. If
 * several enumerators have the same value, the first declared gives the name. Debug information
 * does not say which enumerators are flags, so a combination of such has no name.
 *
 * A set of flags is known to be one. Then the bits of `flags` are flags, and each enumerator there
 * names those that it has; the other bits together are one number, such as the O_ACCMODE of O_*.
 */
#ifndef BASE_ENUMERATION_H
#define BASE_ENUMERATION_H

#include <stddef.h>
#include <stdint.h>

/* Debug information and traces may be hostile. A larger enumeration gets no names at all. */
#define ENUMERATION_COUNT_MAX 1024u
#define ENUMERATION_NAMES_MAX (64u << 10) /* bytes of all names */
#define ENUMERATION_POOL_MAX (8u << 20)	  /* bytes of a pool */

struct enumeration {
	uint32_t number; /* in its pool, from 0 on */
	uint32_t bytes;	 /* the whole size; the names follow all[] */
	uint32_t count;
	uint8_t type;	/* WM_TYPE_*, an integer */
	uint64_t flags; /* which bits are flags; 0: none is */
	struct enumerator {
		uint64_t value; /* sign-extended if the type is signed */
		uint32_t name;	/* its offset from the start */
	} all[];		/* without duplicates; by value, flags as declared */
};

/* A set of enumerations without duplicates. Zeroed is empty. */
struct enumeration_pool {
	struct enumeration **all;
	size_t count, room, bytes;
	void *tree;
};

/* An enumeration under construction. The caller sets `type` and `flags`, and zeroes the rest. */
struct enumeration_draft {
	uint8_t type;
	uint64_t flags;
	int is_refused; /* too large, or no memory */
	struct enumerator *all;
	size_t count, room;
	char *names;
	size_t names_bytes, names_room;
};

/*
 * Add an enumerator; call it in the order of declaration. It ignores a name that is not an
 * identifier and a value that the type cannot hold. Readers print such a value as a number.
 */
void enumeration_draft_add(struct enumeration_draft *draft, uint64_t value, const char *name);
void enumeration_draft_release(struct enumeration_draft *draft);

/* Both return the pool's own copy, or NULL: no names, no memory, or the pool is full. */
const struct enumeration *enumeration_pool_make(struct enumeration_pool *pool,
						struct enumeration_draft *draft);
const struct enumeration *enumeration_pool_copy(struct enumeration_pool *pool,
						const struct enumeration *from);
void enumeration_pool_release(struct enumeration_pool *pool);

int enumeration_is_equal(const struct enumeration *a, const struct enumeration *b);

static inline const char *enumeration_name_at(const struct enumeration *of, uint32_t i)
{
	return (const char *)of + of->all[i].name;
}

/*
 * The name of the enumerator with that value, or NULL. The caller sign-extends the value if the
 * type is signed.
 */
const char *enumeration_name(const struct enumeration *of, uint64_t value);

#define ENUMERATION_TEXT_MAX 512 /* of flags; those that need more have no names */

/*
 * What to print for a value: the name, or those of flags with '|' between them, the rest in
 * hexadecimal, in text[]; NULL: a number.
 */
const char *enumeration_text(const struct enumeration *of, uint64_t value,
			     char text[ENUMERATION_TEXT_MAX]);

/* The size of an integer type; 0: an enumeration cannot have this type. */
unsigned int enumeration_type_bytes(uint8_t type, int *is_signed);

#endif
