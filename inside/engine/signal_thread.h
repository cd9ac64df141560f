/* SPDX-License-Identifier: MIT */
/* What a thread has of signals in the kernel: its stack for handlers, its mask. */
#ifndef INSIDE_ENGINE_SIGNAL_THREAD_H
#define INSIDE_ENGINE_SIGNAL_THREAD_H

#include "inside/engine/engine_thread.h"

/* Set the calling thread's stack for the engine's handlers. */
int signal_thread(struct thread *thread);

/* What a new thread takes over from the one that makes it. */
void signal_inherit(struct thread *child, const struct thread *thread, int shares_memory);

/* Nothing comes to the calling thread, nor to those that it makes, until each lets it again. */
void signal_hold_all(void);
void signal_let_all(struct thread *thread);

/*
 * Nothing comes any more: the thread is about to end. 0: something has come already, and is for it.
 */
int signal_end(struct thread *thread);

#endif
