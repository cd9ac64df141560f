/* SPDX-License-Identifier: MIT */
/*
 * The program's system calls. Most are made unchanged. This file handles those that the engine must
 * know of, or that would reveal it.
 */
#ifndef INSIDE_ENGINE_ENGINE_SYSCALL_H
#define INSIDE_ENGINE_ENGINE_SYSCALL_H

#include "inside/engine/engine_thread.h"

/*
 * Make the call that thread->regs ask for; `next` is behind it. thread->regs are then as behind it,
 * with rip at the place where the thread continues. May not return: exit, or a call that leaves the
 * engine.
 */
void syscall_make(struct thread *thread, uint64_t next);

/*
 * A call came back with a result; `next` is behind it, and thread->regs still ask for it. Into the
 * trail, and what the engine does behind some calls. Also in a handler: no lock is held.
 */
void syscall_over(struct thread *thread, uint64_t next, long result);

/* A signal is delivered in a call: it has not been made, or will not come back to us. */
void syscall_broken_off(struct thread *thread);

#endif
