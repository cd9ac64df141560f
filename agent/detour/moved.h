/* SPDX-License-Identifier: MIT */
/* Which of the program's instructions one in a trampoline is. */
#ifndef AGENT_DETOUR_MOVED_H
#define AGENT_DETOUR_MOVED_H

#include <stdint.h>

/*
 * A moved instruction ends at `end`: 0 and where its copy begins, and where it stood itself; -1: no trampoline is there, or
 * that is none of the moved ones. Any thread. Hit path.
 */
int moved_from(uintptr_t end, uintptr_t *copy, uintptr_t *original);

#endif
