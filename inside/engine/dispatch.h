/* SPDX-License-Identifier: MIT */
/* On to a program address, in translated code. */
#ifndef INSIDE_ENGINE_DISPATCH_H
#define INSIDE_ENGINE_DISPATCH_H

#include "inside/engine/code_read.h"
#include "inside/engine/engine_thread.h"
#include "inside/engine/trace.h"

/*
 * Set thread->next, so that the thread continues at pc with thread->regs. `from`: the exit that
 * leads there from now on, or NULL. Does not return if no code can run there: leave.h.
 */
void dispatch_to(struct thread *thread, uint64_t pc, struct exit *from);

/*
 * Under the lock, which may be given meanwhile: the trace at pc, in whose generation the thread is
 * then. `from`: as above; `reader`: as translate() has it. NULL: *error is -EFAULT: no code is
 * there; or -EAGAIN: there is no reader. Any other error of translate() is written into the
 * channel, and the process must leave.
 */
struct trace *dispatch_find(struct thread *thread, uint64_t pc, struct exit *from,
			    code_reader *reader, int *error);

#endif
