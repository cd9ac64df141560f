/* SPDX-License-Identifier: MIT */
/* Signals that reach a thread under the engine: its own, as the end of a segment and misses of the map, and the program's. */
#ifndef AGENT_TRAIL_SIGNAL_H
#define AGENT_TRAIL_SIGNAL_H

#include "agent/trail/thread.h"

/* The handlers of the engine's own, for the process. 0 or -errno. */
int signal_open(void);

/* The calling thread's stack for them. */
int signal_thread(struct thread *thread);

/* rt_sigprocmask, rt_sigaction, sigaltstack as the program sees them: the result of the call that thread->regs ask for. */
long signal_mask_call(struct thread *thread);
long signal_action_call(struct thread *thread);
long signal_stack_call(struct thread *thread);
/* rt_sigreturn: thread->regs are those of the frame. */
void signal_return_call(struct thread *thread);

/* What a new thread takes over from the one that makes it. */
void signal_inherit(struct thread *child, const struct thread *thread);

#endif
