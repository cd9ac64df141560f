/* SPDX-License-Identifier: MIT */
/*
 * Where landings may be mapped: where nothing is, and where nothing may grow into (base/pun.h).
 * That is not right above the end of the heap (brk(2), whether there is a heap yet or not), nor
 * right below the main stack, nor below private anonymous memory that can be written, which may be
 * a stack that grows (MAP_GROWSDOWN) though nothing says so. Under the agent's lock.
 */
#ifndef INSIDE_DETOUR_ROOM_H
#define INSIDE_DETOUR_ROOM_H

#include <stddef.h>
#include <stdint.h>

#define ROOM_PAGE_BYTES 4096u

/*
 * Look at what is mapped, unless that was done within the last second: a map call refuses what has
 * been mapped since. `own`: mappings that are ours. Returns 0 or -errno.
 */
int room_look(size_t own);

/* The agent has mapped memory: look again next time. */
void room_changed(void);

/* As of the last look. */
int room_is_free(uintptr_t page);

/* The first free page from an address on; 0: none left. */
uintptr_t room_next(uintptr_t from);

/* How many mappings may be ours: a quarter of what the others leave of vm.max_map_count. */
size_t room_limit(void);

#endif
