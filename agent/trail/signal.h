/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach a thread under the engine. The kernel's mask of a thread is the program's, but for action_own, so what
 * comes may be handled by the program at once: right where the thread stands if it is before an instruction of the program's, or
 * a few instructions of ours further on. Where it is in the engine the signal is held, and all others are blocked, until the
 * engine knows where the program goes on.
 */
#ifndef AGENT_TRAIL_SIGNAL_H
#define AGENT_TRAIL_SIGNAL_H

#include "agent/trail/thread.h"

/* For the process, whose first thread it is. 0 or -errno. */
int signal_open(struct thread *thread);

/* The same, but for its mask. */
int signal_open_all(void);

#endif
