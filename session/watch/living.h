/* SPDX-License-Identifier: MIT */
/* Frames that live already when a running program is looked at: each thread is stopped for a moment, and its stack unwound. */
#ifndef SESSION_WATCH_LIVING_H
#define SESSION_WATCH_LIVING_H

#include "code/resolve.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct living {
	pid_t tid; /* as the program itself numbers it */
	uint64_t cfa;
	uint64_t pc; /* in the frame's function */
};

/*
 * Call take() for each frame of each thread, innermost first. Returns 0, or why some thread could not be looked at:
 * -EPERM (ptrace(2) is not for us, or another traces it), -ETIMEDOUT, -ENOMEM; -ESRCH: the process is gone. While it runs,
 * nobody else in this process may wait for just any child.
 */
int living_find(pid_t pid, struct code_module *const *modules, size_t count,
		void (*take)(const struct living *living, void *data), void *data);

#endif
