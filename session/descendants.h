/* SPDX-License-Identifier: MIT */
#ifndef SESSION_DESCENDANTS_H
#define SESSION_DESCENDANTS_H

#include <sys/types.h>

/*
 * The processes that descend from one, as they are now, parents before their children; without itself.
 * Returns how many, or -errno. free() *pids.
 */
int descendants_read(pid_t root, pid_t **pids);

#endif
