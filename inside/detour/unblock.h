/* SPDX-License-Identifier: MIT */
/*
 * Threads that blocked SIGTRAP before the guards were in place, as in programs that leave all
 * signals to one thread: their hits would be missed. While they are stopped, SIGTRAP is removed
 * from their masks, and the guards' record (struct trap_thread) says that it is blocked, as if they
 * had asked for it since; when the guards go, it is restored.
 */
#ifndef INSIDE_DETOUR_UNBLOCK_H
#define INSIDE_DETOUR_UNBLOCK_H

#include "inside/detour/janitor_process.h"

/* Do so with this one, by job->masks. The janitor's. */
void unblock_thread(const struct stop_job *job, const struct stopped *thread);

#endif
