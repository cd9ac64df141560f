/* SPDX-License-Identifier: MIT */
/*
 * Objects of the C++ library whose operators -> * [] lead to other memory. A debugger calls the
 * operators in the program; here they are the members that libstdc++ and libc++ have, by name.
 */
#ifndef TARGET_EXPRESSION_LIBRARY_H
#define TARGET_EXPRESSION_LIBRARY_H

#include "target/expression/declared.h"

#define LIBRARY_POINTER 1u  /* -> and *: unique_ptr, shared_ptr */
#define LIBRARY_ELEMENTS 2u /* []: these, vector, array, basic_string */

enum library_limit {
	LIBRARY_NO_LIMIT,
	LIBRARY_END,   /* a pointer behind the last element */
	LIBRARY_COUNT, /* a number of elements; one more, the 0 at its end, has an index too */
};

struct library_found {
	uint64_t offset;      /* of the pointer, or the array, in the object */
	struct declared type; /* its type, peeled */
	enum library_limit limit;
	uint64_t limit_offset; /* in the object */
};

/*
 * Find it in a peeled record. 0; -ENOENT: this class has no such operator here;
 * -EOPNOTSUPP: it has, but its members are not known here, as those of libc++'s basic_string.
 */
int library_find(const struct declared *record, unsigned int use, const struct code_file *file,
		 struct library_found *found);

#endif
