/* SPDX-License-Identifier: MIT */
#ifndef INSIDE_PATCH_SORT_H
#define INSIDE_PATCH_SORT_H

#include <stddef.h>

/*
 * Sort items whose first member is a uintptr_t by it; stable; quick when they are mostly in order.
 * libc's qsort(3) may call malloc, which the control side never does. 0, or -ENOMEM and nothing is
 * sorted.
 */
int sort_by_address(void *items, size_t count, size_t item_bytes);

#endif
