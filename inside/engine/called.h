/* SPDX-License-Identifier: MIT */
/*
 * The outcome of a program's system call that was made, or begun. Its callers make the call, or
 * deliver a signal during it.
 */
#ifndef INSIDE_ENGINE_CALLED_H
#define INSIDE_ENGINE_CALLED_H

#include "inside/engine/engine_thread.h"

/* The call came back with a result; `next` is behind it. Into the trail. */
void called_tell(struct thread *thread, uint64_t next, long result);

/* A signal is delivered in it: it has not been made, or will not come back to us. */
void called_broken_off(struct thread *thread);

#endif
