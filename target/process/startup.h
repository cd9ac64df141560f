/* SPDX-License-Identifier: MIT */
#ifndef TARGET_PROCESS_STARTUP_H
#define TARGET_PROCESS_STARTUP_H

#include "arch/start_stage.h"
#include "target/process/glibc.h"

#include <sys/types.h>

/*
 * How far the start of a process has come that the caller traces; `tid` is a thread of it. Until it
 * is over, the dynamic loader works without its locks: it takes the process for its own.
 */
enum startup startup_read(pid_t tid, int mem_fd, const struct glibc *glibc);

/*
 * Does it run in its parent's memory? The child of a vfork(2) or posix_spawn(3), until it executes.
 */
int startup_in_parent(pid_t pid, pid_t parent);

#endif
