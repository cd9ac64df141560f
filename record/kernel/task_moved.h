/* SPDX-License-Identifier: MIT */
/*
 * Where a process's trampolines and landings are (abi/detour.h), whichever tool asked for them, and
 * the program's instruction in place of each. They stay as long as the process has its memory, so
 * what was read once holds for addresses recorded before and after, and when the process has ended.
 */
#ifndef RECORD_KERNEL_TASK_MOVED_H
#define RECORD_KERNEL_TASK_MOVED_H

#include "abi/detour.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Zeroed: none are known. */
struct task_moved {
	struct task_moved_region *regions;
	size_t region_count, region_room;
	struct task_moved_code *all; /* in order of address */
	size_t count, room;
	uint64_t looked_ns; /* when the process's map was read last */
	int is_inherited;   /* by a fork: not read in the process itself */
};

/* The same, and the process's map first, unless that was done a moment ago. */
void task_moved_look(struct task_moved *moved, pid_t pid);

/* What a trampoline or landing is of, and the offset there in the trampoline. NULL: in none. */
const struct detour_head *task_moved_find(const struct task_moved *moved, uint64_t address,
					  uint64_t *offset);

/* The process executed another program at that time: what was read before is gone. */
void task_moved_forget(struct task_moved *moved, uint64_t before_ns);

/*
 * A forked child has its parent's, until they are read in the child itself. Without memory it has
 * none.
 */
void task_moved_inherit(struct task_moved *moved, const struct task_moved *parent);

void task_moved_release(struct task_moved *moved);

#endif
