/* SPDX-License-Identifier: MIT */
/* Structures of the public headers that begin with their size. */
#ifndef RECORD_PERF_SIZED_COPY_H
#define RECORD_PERF_SIZED_COPY_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define SIZE_MAX_SANE 4096u /* of a structure: what is larger was never set */

/*
 * Copy a structure of another size than ours: a shorter one is older, of at least `least`; a longer
 * one may ask for nothing new. 0, -EINVAL, -E2BIG.
 */
static inline int sized_copy(void *to, size_t bytes, const void *from, size_t size, size_t least)
{
	const unsigned char *all = from;

	if (size < least)
		return -EINVAL;
	if (size > SIZE_MAX_SANE)
		return -E2BIG;
	for (size_t i = bytes; i < size; i++)
		if (all[i])
			return -E2BIG;
	memset(to, 0, bytes);
	memcpy(to, from, size < bytes ? size : bytes);
	return 0;
}

#endif
