/* SPDX-License-Identifier: MIT */
/*
 * Memory for the control side, from mmap(2) and never from the program's malloc, whose locks a
 * program thread may hold when it is stopped or forks. All calls are made under the agent's lock.
 */
#ifndef INSIDE_RUNTIME_HEAP_H
#define INSIDE_RUNTIME_HEAP_H

#include <stddef.h>

#define HEAP_LINE_BYTES 64

/* Zeroed memory, aligned to 16, from 64 bytes on to HEAP_LINE_BYTES; NULL if out of memory. */
void *heap_alloc(size_t bytes);

/* Give it back; `bytes` as it was asked for. NULL is allowed. */
void heap_free(void *start, size_t bytes);

/* A copy of `bytes` bytes, or NULL. */
void *heap_copy(const void *from, size_t bytes);

#endif
