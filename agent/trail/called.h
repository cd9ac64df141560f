/* SPDX-License-Identifier: MIT */
/* What becomes of a system call of the program's that was made, or begun: asked by who makes it, and by who gives signals in its midst. */
#ifndef AGENT_TRAIL_CALLED_H
#define AGENT_TRAIL_CALLED_H

#include "agent/trail/thread.h"

/* The call came back with a result; `next` is behind it. Into the trail. */
void called_tell(struct thread *thread, uint64_t next, long result);

/* A signal is delivered in it: it has not been made, or will not come back to us. */
void called_broken_off(struct thread *thread);

#endif
