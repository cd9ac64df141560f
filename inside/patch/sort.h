/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_PATCH_SORT_H
#define INSIDE_PATCH_SORT_H

#include <stddef.h>

/*
 * Sort items whose first member is a uintptr_t by it; stable; quick when they are mostly in order.
 * libc's qsort(3) may call malloc, which the control side never does. `spare` has room for as many
 * and may be written in any way. Returns the array that has the result: `items` or `spare`.
 */
void *sort_by_address(void *items, void *spare, size_t count, size_t item_bytes);

#endif
