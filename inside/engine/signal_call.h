/* SPDX-License-Identifier: MIT */
/* The program's own calls about signals, and those that wait for them. */
#ifndef INSIDE_ENGINE_SIGNAL_CALL_H
#define INSIDE_ENGINE_SIGNAL_CALL_H

#include "inside/engine/engine_thread.h"

/* As thread->regs ask for them: their results. `plain` makes one as it is. */
long signal_mask_call(struct thread *thread);
long signal_action_call(struct thread *thread);
long signal_stack_call(struct thread *thread);
long signal_pending_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_wait_call(struct thread *thread);
/*
 * What such a call has taken goes to the program, also where a signal came right behind it: the
 * result for the program, or GATE_CALL_LATER.
 */
long signal_wait_took(struct thread *thread, long result);
long signal_other_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_descriptor_call(const struct thread *thread, long (*plain)(const struct thread *));
long signal_exec_call(struct thread *thread, long (*plain)(const struct thread *));

/* The program ran before us: it may have signalfd(2)s that we did not see it make. */
void signal_descriptors_expect(void);

/* ppoll(2) and its like: the mask that holds while they wait. 0: the call has none. */
int signal_call_mask(const struct thread *thread, uint64_t *mask);

/* rt_sigreturn: continue as the frame says; `next` is behind the call. */
void signal_return_call(struct thread *thread, uint64_t next) __attribute__((noreturn));

#endif
