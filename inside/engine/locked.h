/* SPDX-License-Identifier: MIT */
/*
 * mlockall(2) of the program's: it locks the program's memory, and not ours, which is large, mostly
 * never touched, and would count against what the program may lock (RLIMIT_MEMLOCK).
 */
#ifndef INSIDE_ENGINE_LOCKED_H
#define INSIDE_ENGINE_LOCKED_H

#include "inside/engine/engine_thread.h"

#include <stddef.h>

long locked_call(const struct thread *thread);

/* We have mapped this: where all that comes is locked, that is not. */
void locked_spare(const void *at, size_t bytes);

#endif
