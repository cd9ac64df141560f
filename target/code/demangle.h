/* SPDX-License-Identifier: MIT */
/* Names that C++ and Rust compilers made, as the programmer wrote them. */
#ifndef TARGET_CODE_DEMANGLE_H
#define TARGET_CODE_DEMANGLE_H

#include <stddef.h>

#define CODE_WITHOUT_RETURN 2

/*
 * Demangle a linkage name to text[bytes]: "ns::f", or with its parameters "ns::f(int)". Those of a
 * template have the type of the result before: "int ns::f<int>(int)"; not with CODE_WITHOUT_RETURN.
 * Returns 1; 0 when it is no such name, a damaged one, or too long for the room. Any thread.
 */
int code_demangle(const char *name, int with_parameters, char *text, size_t bytes);

/*
 * Write any linkage name as people read it to text[bytes], 4 at least: as above, with the
 * compiler's suffixes as c++filt writes them: "f(int) [clone .cold]". Parameters that have no room
 * become "(...)". A name that is cut ends in "...". Control characters are replaced. Any thread.
 */
void code_name_text(const char *name, int with_parameters, char *text, size_t bytes);

#endif
