/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach a thread under the engine. The kernel's mask of a thread is the program's,
 * except for action_own. So the program can usually handle a signal at once: right there, if the
 * thread is before one of the program's instructions, or a few engine instructions later.
 *
 * If the thread is in the engine, the signal stays pending. All others are blocked until the engine
 * knows where the program continues.
 */
#ifndef INSIDE_ENGINE_SIGNAL_H
#define INSIDE_ENGINE_SIGNAL_H

#include "inside/engine/engine_thread.h"

/* For the process, whose first thread it is. 0 or -errno. */
int signal_open(struct thread *thread);

/* The same, except for its mask. */
int signal_open_all(void);

#endif
