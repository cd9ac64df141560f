/* SPDX-License-Identifier: MIT */
/*
 * Signals given to the program, as the kernel would: a frame on its stack, and on in its handler;
 * or its end. The context is a frame of the kernel's in which all registers are the program's; only
 * in handlers of the engine's.
 */
#ifndef INSIDE_ENGINE_DELIVER_H
#define INSIDE_ENGINE_DELIVER_H

#include "inside/engine/engine_thread.h"
#include "inside/engine/signal_frame.h"

/*
 * Deliver a signal. `left`: the instructions of the block from where the program is. `back_to`: its
 * signal mask when the handler returns; NULL: unchanged. 0: the program continues from *context;
 * -1: it is about to end.
 */
int deliver(struct thread *thread, const siginfo_t *info, struct frame_context *context,
	    uint32_t left, const uint64_t *back_to);

/* The program's stack for signals, as sigaltstack(2): 0 or -errno. */
long deliver_stack_set(struct thread *thread, const stack_t *asked, uint64_t rsp);
void deliver_stack_tell(const struct thread *thread, stack_t *stack, uint64_t rsp);

/*
 * It ends the program, as it would without us: the same signal again, where and as the program is.
 * `thread`: NULL, if it has left.
 */
void deliver_death(struct thread *thread, const siginfo_t *info, struct frame_context *context);

#endif
