/* SPDX-License-Identifier: MIT */
/*
 * A program that runs already comes under the engine, and leaves it: what the tool, which holds a thread stopped by ptrace(2), has it
 * do (struct engine_places of abi/engine.h).
 *
 * Between any two steps the tool may be gone. Who then goes on by himself finds out whether the engine has been made ready, and is the
 * program's else: the first who asks decides it for all.
 */
#ifndef AGENT_TRAIL_ATTACH_H
#define AGENT_TRAIL_ATTACH_H

#include "agent/trail/thread.h"

/* For the tool: where all that is. */
void attach_places(struct engine_channel *head);

/*
 * In a thread of the program's that the tool has borrowed: a struct thread for each that is to be taken, and it is the first of them. Where that
 * can't be, back by the tool's own code.
 */
void attach_open(struct engine_channel *head, int err) __attribute__((noreturn));

/*
 * rseq(2). A critical section of its is left by the kernel at once if its thread is interrupted, which it tells by addresses in which we
 * never are, so translated ones would be wrong. A program that begins hears that there is no such call. One that has it
 * already would not stand that: it has it, and its CPU's number is -1, as if the kernel had not come to it yet.
 */
long attach_rseq_call(struct thread *thread);

/* The calling thread goes on natively: the kernel has it again. */
void attach_rseq_back(struct thread *thread);

/* What a child has of it. */
void attach_inherit(struct thread *child, const struct thread *thread, int shares_memory);

#endif
