/* SPDX-License-Identifier: MIT */
/*
 * Find the frames that exist when a running program is attached to: stop each thread for a moment
 * and unwind its stack.
 */
#ifndef RECORD_WATCH_LIVING_H
#define RECORD_WATCH_LIVING_H

#include "target/code/resolve.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct living {
	pid_t tid; /* in the program's PID namespace */
	uint64_t cfa;
	uint64_t pc; /* in the frame's function */
};

/*
 * Call take() for each frame of each thread, innermost first. Returns 0, or the first error of a
 * thread that could not be examined: -EPERM (we may not trace it, or another tracer has it),
 * -ETIMEDOUT, -ENOMEM; -ESRCH: the process is gone. While this runs, no other thread of the caller
 * may wait for any child at all, as waitpid(-1) does.
 */
int living_find(pid_t pid, struct code_module *const *modules, size_t count,
		void (*take)(const struct living *living, void *data), void *data);

#endif
