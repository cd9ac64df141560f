/* SPDX-License-Identifier: MIT */
/* Which of the program's instructions one in a trampoline is. */
#ifndef INSIDE_DETOUR_MOVED_H
#define INSIDE_DETOUR_MOVED_H

#include <stdint.h>

/*
 * A moved instruction that ends at `end`: 0, with the addresses of its copy and of its original;
 * -1: no trampoline is there, or it is not a moved instruction. Any thread. Hit path.
 */
int moved_from(uintptr_t end, uintptr_t *copy, uintptr_t *original);

#endif
