/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach a thread under the engine. The kernel's mask of a thread is the program's, but for
 * action_unblocked, so what comes may be handled by the program at once: right where the thread stands if it is before an instruction of
 * the program's; else the signal is queued again and blocked until it is.
 */
#ifndef AGENT_TRAIL_SIGNAL_H
#define AGENT_TRAIL_SIGNAL_H

#include "agent/trail/thread.h"

/* For the process, whose first thread it is. 0 or -errno. */
int signal_open(struct thread *thread);

/* The calling thread's stack for handlers of ours. */
int signal_thread(struct thread *thread);

/* What a new thread takes over from the one that makes it. */
void signal_inherit(struct thread *child, const struct thread *thread, int is_thread);

/*
 * Signals were deferred, and the program is at thread->regs: they come now. Returns when there are none (any more); else the thread goes on in the
 * program's handler.
 */
void signal_deliver_deferred(struct thread *thread);

/* rt_sigprocmask, rt_sigaction, sigaltstack of the program's, as thread->regs ask for them: their results. */
long signal_mask_call(struct thread *thread);
long signal_action_call(struct thread *thread);
long signal_stack_call(struct thread *thread);

/* rt_sigreturn: goes on where the frame says. */
void signal_return_call(struct thread *thread) __attribute__((noreturn));

#endif
