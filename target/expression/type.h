/* SPDX-License-Identifier: MIT */
/*
 * The type of what is watched, and its values as text.
 *
 * A type is an array of nodes, whose first node is the whole. They have fixed widths and no
 * pointers. So a trace stores the two arrays unchanged, and a reader checks them
 * (expression_type_check()). A type no longer than a watch can be is described down to its last
 * member, up to WATCH_NODES_MAX. Of a longer one, parts are runs of bytes, and an enumeration's
 * values numbers.
 */
#ifndef TARGET_EXPRESSION_TYPE_H
#define TARGET_EXPRESSION_TYPE_H

#include <stddef.h>
#include <stdint.h>

#define WATCH_NODES_MAX 1024
#define WATCH_NAMES_MAX 32768
#define WATCH_TYPE_DEPTH_MAX 8
#define WATCH_TEXT_MAX 1024 /* of a value; longer ones end in "..." */

enum watch_class {
	WATCH_BYTES, /* nothing is known of it, or no more than its name */
	WATCH_SIGNED,
	WATCH_UNSIGNED,
	WATCH_CHAR,  /* a character: signed, of 1 byte */
	WATCH_UCHAR, /* unsigned, of 1, 2, 4 bytes: char16_t, char32_t, and wchar_t, by its name */
	WATCH_BOOL,
	WATCH_FLOAT,   /* of 4, 8, or 16 bytes; of the 16, 10 count, or all: WATCH_IS_QUAD */
	WATCH_COMPLEX, /* two floats, each of half the bytes */
	WATCH_POINTER,
	WATCH_ENUM,	  /* children: its enumerators */
	WATCH_STRUCT,	  /* or class, or union: children are its members */
	WATCH_ARRAY,	  /* one child, its element; `elements` of them */
	WATCH_CODE,	  /* a function: of kind x */
	WATCH_ENUMERATOR, /* no type: a child of WATCH_ENUM */
};

#define WATCH_IS_UNION 1
#define WATCH_IS_FLAGS 2    /* an enumeration of bits, printed as (A | B) */
#define WATCH_IS_CUT 4	    /* there are more children than are here */
#define WATCH_IS_UNSIGNED 8 /* of an enumeration's numbers */
#define WATCH_IS_QUAD 16    /* floats of 16 bytes are binary128 */

struct watch_node {
	uint8_t class;
	/*
	 * WM_TYPE_*, as a field of the store holds it: WM_TYPE_BYTES for what is no number of 1, 2,
	 * 4, 8 bytes
	 */
	uint8_t type;
	uint8_t flags; /* WATCH_IS_* */
	uint8_t reserved;
	uint16_t bit,
		/*
		 * of a bit-field: its first bit in the bytes, from the lowest, and how many; bits
		 * 0: none is one
		 */
		bits;
	uint32_t bytes;
	uint32_t offset; /* a member's, in bytes, in what it is a member of */
	uint32_t name;	 /* of the type as C writes it, where in names[]: "struct node *" */
	/*
	 * of a member, or an enumerator; 0: it has none (an anonymous union, a base class: the
	 * class's name)
	 */
	uint32_t member;
	uint32_t first, count; /* its children: nodes that follow each other */
	uint64_t elements;     /* of an array */
	int64_t value;	       /* of an enumerator; of an array: its first index */
};

struct watch_type {
	struct watch_node *nodes;
	uint32_t node_count;
	uint32_t names_bytes;
	char *names; /* texts, each with its NUL; names[0] is 0 */
};

void expression_type_release(struct watch_type *type);

/* Whether all that is known of them is the same. */
int expression_type_is_same(const struct watch_type *a, const struct watch_type *b);

/*
 * A type without debug information: so many bytes; unsigned integers of 1, 2, 4 and 8. 0 or
 * -ENOMEM.
 */
int expression_type_plain(struct watch_type *type, uint64_t bytes);

/* Whether what was read from somewhere is one: indices, depth, texts. 0 or -EINVAL. */
int expression_type_check(const struct watch_type *type);

/* The type's name: "unsigned int", "struct node *". Never NULL. */
const char *expression_type_name(const struct watch_type *type);

/* How values look. Without a style, numbers are decimal and addresses have no symbol. */
struct watch_style {
	/* Writes an address by its symbol, "counter+4", to text[bytes]; 0: none. May be NULL. */
	int (*name)(void *data, uint64_t address, char *text, size_t bytes);
	void *data;
	int is_hex; /* numbers are hexadecimal; of floating point, the bits are */
};

/*
 * Write a value, of as many bytes as its type has, to text[room], as gdb prints it where it prints
 * a member: 42, 97 'a', 1.5, RED, 0x404040 <counter>, {a = 1, b = 2}, {1, 2, 3}, "abc". A text
 * that does not fit ends in "...". `style` may be NULL. Returns how many bytes it wrote, without
 * the NUL. Any thread.
 */
size_t expression_type_text(const struct watch_type *type, const void *value,
			    const struct watch_style *style, char *text, size_t room);

/* Some bytes of a value, one piece of it: as they were and as they are. */
struct watch_stretch {
	uint32_t offset, bytes;
	const void *before, *after;
};

/* A part of a value: a member or an element, or several that are neighbours. */
struct watch_part {
	uint32_t node;	/* the first */
	uint32_t of;	/* the struct or the array that it is in */
	uint32_t count; /* of members or elements; 0: it is one, and is shown as its type has it */
	uint32_t offset, bytes; /* in the whole */
	uint8_t half;		/* of a complex number: 1 is the real half, 2 the imaginary one */
};

/*
 * Find the part of a value that a stretch holds:
 * - the part that is exactly its bytes;
 * - else the smallest part in it that differs from before, or several neighbours if several differ;
 * - all of the stretch if nothing differs.
 *
 * A string is not taken apart. text[room] is the part's name behind the whole's: ".size", "[2].x",
 * "[0..1]". Returns 0 without such a part, or without room for its name; then text[] is "".
 *
 * -ERANGE: only some bytes of a number are in the stretch; *part and text[] are that number's.
 */
int expression_type_part(const struct watch_type *type, const struct watch_stretch *stretch,
			 struct watch_part *part, char *text, size_t room);

/* As expression_type_text(), of a part: `value` has the part's bytes. */
size_t expression_type_part_text(const struct watch_type *type, const struct watch_part *part,
				 const void *value, const struct watch_style *style, char *text,
				 size_t room);

#endif
