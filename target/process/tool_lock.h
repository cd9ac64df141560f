/* SPDX-License-Identifier: MIT */
/*
 * Where tools that enter one process take turns, for microseconds each: a flock(2) of
 * /proc/PID/task/TID/fd, of the oldest thread that lives. Whoever may not trace the process can't
 * open that; the kernel takes the turn from a tool that dies; and nothing is left behind.
 *
 * Not covered: tools that see the process through two mounts of proc, which have a file each, and
 * the oldest thread's end between the looks of two tools.
 */
#ifndef TARGET_PROCESS_TOOL_LOCK_H
#define TARGET_PROCESS_TOOL_LOCK_H

#include <sys/types.h>

/* The turns at a thread's process: a descriptor for tool_lock_close(), or -errno. */
int tool_lock_open(pid_t tid);

/* 0: it is our turn, until tool_lock_unlock(); -EBUSY: it is another's, and stays so. */
int tool_lock_try(int lock);
void tool_lock_unlock(int lock);

/* Unlocks, too. -1 is allowed. */
void tool_lock_close(int lock);

#endif
