/* SPDX-License-Identifier: MIT */
/*
 * rseq(2). If a thread is interrupted in a critical section, the kernel aborts the section. It
 * finds the section by program addresses, where translated code never runs. So translated sections
 * would be wrong.
 *
 * A program that starts under the engine gets -ENOSYS. A program that already uses rseq would not
 * tolerate that. It keeps its registration, and its CPU number is -1, as if the kernel had not set
 * it yet.
 */
#ifndef INSIDE_ENGINE_RSEQ_H
#define INSIDE_ENGINE_RSEQ_H

#include "inside/engine/engine_thread.h"

/* The program's own call, as thread->regs ask for it. */
long rseq_call(struct thread *thread);

/* The calling thread has it as thread->rseq says: the kernel has it no more. 0 or -errno. */
long rseq_take(struct thread *thread);

/* The calling thread continues natively: register it with the kernel again. */
void rseq_restore(struct thread *thread);

/* What a child has of it. */
void rseq_inherit(struct thread *child, const struct thread *thread, int shares_memory);

#endif
