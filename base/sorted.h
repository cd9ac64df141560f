/* SPDX-License-Identifier: MIT */
/*
 * Where a value belongs among sorted numbers. The numbers are uint64_t at `offset` in each of
 * all[count], elements of `stride` bytes, which never fall from one to the next. Nothing is
 * written; any thread may.
 */
#ifndef BASE_SORTED_H
#define BASE_SORTED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* How many of the numbers are below `limit`: the place of the first that is not. */
static inline size_t sorted_below(const void *all, size_t count, size_t stride, size_t offset,
				  uint64_t limit)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		uint64_t number;

		memcpy(&number, (const char *)all + middle * stride + offset, sizeof(number));
		if (number < limit)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How many of them are `value` or below. */
static inline size_t sorted_at_most(const void *all, size_t count, size_t stride, size_t offset,
				    uint64_t value)
{
	return value == UINT64_MAX ? count : sorted_below(all, count, stride, offset, value + 1);
}

static inline int sorted_order(const void *one, const void *other)
{
	uint64_t a, b;

	memcpy(&a, one, sizeof(a));
	memcpy(&b, other, sizeof(b));
	return a < b ? -1 : a > b;
}

/* Sort elements that begin with the number. Those with the same number come in any order. */
static inline void sorted_make(void *all, size_t count, size_t stride)
{
	if (count)
		qsort(all, count, stride, sorted_order);
}

#endif
