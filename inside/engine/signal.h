/* SPDX-License-Identifier: MIT */
/*
 * Signals that reach a thread under the engine. The kernel's mask of a thread is the program's,
 * except for action_own. So the program can usually handle a signal at once: right there, if the
 * thread is before one of the program's instructions, or a few engine instructions later.
 *
 * If the thread is in the engine, the signal stays pending. All others are blocked until the engine
 * knows where the program continues.
 */
#ifndef INSIDE_ENGINE_SIGNAL_H
#define INSIDE_ENGINE_SIGNAL_H

#include "inside/engine/engine_thread.h"
#include "inside/engine/signal_frame.h"
#include "inside/engine/state.h"

/* For the process, whose first thread it is. 0 or -errno. */
int signal_open(struct thread *thread);

/* The same, except for its mask. */
int signal_open_all(void);

/*
 * Deliver a signal to the program, as the kernel would: a frame on its stack, and on in its
 * handler; or its end. The context is a frame of the kernel's in which all registers are the
 * program's; only in handlers of the engine's. `left`: the instructions of the block from where the
 * program is. `back_to`: its signal mask when the handler returns; NULL: unchanged. 0: the program
 * continues from *context; -1: it is about to end.
 */
int signal_deliver(struct thread *thread, const siginfo_t *info, struct frame_context *context,
		   uint32_t left, const uint64_t *back_to);

/* The path up to where the program is, in the trail. Takes the engine's lock. */
void signal_onward_path(struct thread *thread, const struct state *state);

/*
 * The program's own calls about signals, and those that wait for them, as thread->regs ask for
 * them: their results. `plain` makes one as it is.
 */
long signal_mask_call(struct thread *thread);
long signal_stack_call(struct thread *thread);
long signal_pending_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_wait_call(struct thread *thread);
long signal_other_call(struct thread *thread, long (*plain)(const struct thread *));
long signal_exec_call(struct thread *thread, long (*plain)(const struct thread *));

/* The program makes a signalfd(2), or may have one that we did not see it make. */
void signal_descriptors_expect(void);

/* rt_sigreturn: continue as the frame says; `next` is behind the call. */
void signal_return_call(struct thread *thread, uint64_t next) __attribute__((noreturn));

/* Set the calling thread's stack for the engine's handlers. */
int signal_thread(struct thread *thread);

/* Set the program's stack for signals again, which *stack then is. */
void signal_stack_restore(const struct thread *thread, stack_t *stack);

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
