/* SPDX-License-Identifier: MIT */
/* The freezer of cgroup v2, which `docker pause` uses: threads that it holds look asleep. */
#ifndef RECORD_SESSION_FREEZER_H
#define RECORD_SESSION_FREEZER_H

#include <sys/types.h>

/*
 * Whether the freezer holds all threads of a process. Reads two small files. Also 0 if the
 * process's cgroup is not visible from here.
 */
int freezer_holds(pid_t pid);

#endif
