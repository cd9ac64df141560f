/* SPDX-License-Identifier: MIT */
/*
 * Where the program mostly continues, according to its own recorded words. The engine looks at a
 * full segment now and then. It lays hot traces out again along the usual path.
 */
#ifndef INSIDE_ENGINE_PROFILE_H
#define INSIDE_ENGINE_PROFILE_H

#include "inside/engine/engine_thread.h"

/*
 * The thread's segment is full, up to thread->pointer; the thread is in translated code, or in no
 * code that holds the engine's lock.
 */
void profile_look(const struct thread *thread);

#endif
