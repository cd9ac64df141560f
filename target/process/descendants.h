/* SPDX-License-Identifier: MIT */
#ifndef TARGET_PROCESS_DESCENDANTS_H
#define TARGET_PROCESS_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The processes that descend from some, as they are now, parents before their children; without
 * those themselves. Returns how many, or -errno. free() *pids.
 */
int descendants_read(const pid_t *roots, size_t root_count, pid_t **pids);

/*
 * The same from the kernel's lists of children, which cost little on a machine with many processes.
 * They may miss one while others end. Without such lists it reads all processes.
 */
int descendants_glance(const pid_t *roots, size_t root_count, pid_t **pids);

#endif
