/* SPDX-License-Identifier: MIT */
/*
 * rseq(2). A critical section of its is left by the kernel at once if its thread is interrupted, which it tells by addresses in which we
 * never are, so translated ones would be wrong. A program that begins hears that there is no such call. One that has it
 * already would not stand that: it has it, and its CPU's number is -1, as if the kernel had not come to it yet.
 */
#ifndef AGENT_TRAIL_RSEQ_H
#define AGENT_TRAIL_RSEQ_H

#include "agent/trail/thread.h"

/* The program's own call, as thread->regs ask for it. */
long rseq_call(struct thread *thread);

/* The calling thread has it as thread->rseq says: the kernel has it no more. 0 or -errno. */
long rseq_take(struct thread *thread);

/* The calling thread goes on natively: the kernel has it again. */
void rseq_give_back(struct thread *thread);

/* What a child has of it. */
void rseq_inherit(struct thread *child, const struct thread *thread, int shares_memory);

#endif
