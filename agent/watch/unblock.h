/* SPDX-License-Identifier: MIT */
/*
 * Threads that blocked SIGTRAP before the guards stood, as many do that leave all signals to one of them: no hit of theirs
 * would be told. While they are stopped SIGTRAP is taken out of their masks, and the guards' book (struct trap_thread) says that it
 * is blocked, as if they had asked for it since; when the guards go, it is put back.
 */
#ifndef AGENT_WATCH_UNBLOCK_H
#define AGENT_WATCH_UNBLOCK_H

#include "agent/detour/stop.h"

/* Do so with this one, by job->masks. The janitor's. */
void unblock_thread(const struct stop_job *job, const struct stopped *thread);

#endif
