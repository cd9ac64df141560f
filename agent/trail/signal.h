/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach a thread under the engine. The kernel's mask of a thread is the program's, but for action_own, so what
 * comes may be handled by the program at once: right where the thread stands if it is before an instruction of the program's, or
 * a few instructions of ours further on. Where it is in the engine the signal is held, and all others are blocked, until the
 * engine knows where the program goes on.
 */
#ifndef AGENT_TRAIL_SIGNAL_H
#define AGENT_TRAIL_SIGNAL_H

#include "agent/trail/frame.h"
#include "agent/trail/thread.h"

/* For the process, whose first thread it is. 0 or -errno. */
int signal_open(struct thread *thread);

/* The same, but for its mask. */
int signal_open_all(void);

/* The calling thread's stack for handlers of ours. */
int signal_thread(struct thread *thread);

/* What a new thread takes over from the one that makes it. */
void signal_inherit(struct thread *child, const struct thread *thread, int is_thread);

/* Nothing comes to the calling thread, nor to those that it makes, until each lets it again. */
void signal_hold_all(void);
void signal_let_all(struct thread *thread);

/* Nothing comes any more: the thread is about to end. 0: something has come already, and is for it. */
int signal_end(struct thread *thread);

/* A frame of which all is the program's, for rt_sigreturn(2), made what goes on, with what waits delivered. Everything is blocked. */
void signal_resume(struct thread *thread, struct frame_context *context);

/* Calls of the program's, as thread->regs ask for them: their results. `plain` makes one as it is. */
long signal_mask_call(struct thread *thread);
long signal_action_call(struct thread *thread);
long signal_stack_call(struct thread *thread);
long signal_pending_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_wait_call(struct thread *thread);
long signal_other_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_descriptor_call(const struct thread *thread, long (*plain)(const struct thread *));
long signal_exec_call(struct thread *thread, long (*plain)(const struct thread *));

/* ppoll(2) and its like: the mask that holds while they wait. 0: the call has none. */
int signal_call_mask(const struct thread *thread, uint64_t *mask);

/* rt_sigreturn: goes on where the frame says; `next` is behind the call. */
void signal_return_call(struct thread *thread, uint64_t next) __attribute__((noreturn));

#endif
