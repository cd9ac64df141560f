/* SPDX-License-Identifier: MIT */
/* One inline function with a marker, in two translation units. */
#ifndef TESTS_MARKER_INLINE_H
#define TESTS_MARKER_INLINE_H

#include "check.h"

#ifdef __cplusplus
inline /* one copy survives, in a COMDAT group */
#else
static inline
#endif
	int
	inline_both(int value)
{
	WAYMARK(inlined, both, once(value));
	return value + 1;
}

#endif
