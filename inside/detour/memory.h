/* SPDX-License-Identifier: MIT */
/*
 * Executable memory within reach of code. Mapped readable and executable, and written as code is
 * (inside/patch/text.h): where /proc/self/mem can do that, it is never writable and executable at
 * once. Never given back. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_MEMORY_H
#define INSIDE_DETOUR_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/*
 * `bytes` bytes, aligned to 16, that start between `low` and `high`, and as near to `wish` as can
 * be; in front of them, room for a struct detour_head, which the caller writes. Returns 0 and
 * *start; -WM_E_DETOUR_REACH, -WM_E_DETOUR_MEMORY (the cap), -errno.
 */
int memory_take(uintptr_t low, uintptr_t high, uintptr_t wish, size_t bytes, uintptr_t *start);

/* The last that was taken was not used after all. */
void memory_untake(uintptr_t start, size_t bytes);

/* Whether an address is in memory that was taken, or may be. Any thread. Hit path. */
int memory_holds(uintptr_t address);

/* Bytes mapped so far. */
size_t memory_mapped(void);

/* For tests: another cap than DETOUR_MEMORY_MAX_BYTES. */
void memory_limit(size_t bytes);

#endif
