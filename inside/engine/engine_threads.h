/* SPDX-License-Identifier: MIT */
/*
 * Threads coming and going: a struct thread and its stacks for each, and the calls that make and
 * end threads and processes.
 */
#ifndef INSIDE_ENGINE_ENGINE_THREADS_H
#define INSIDE_ENGINE_ENGINE_THREADS_H

#include "inside/engine/engine_thread.h"

/* One with stacks, and nothing else. NULL: no memory. */
struct thread *thread_make(void);

/* The caller's from now on: gs, the stack for signals. 0 or -errno. */
int thread_enter(struct thread *thread);

/* The process begins with so many threads, which no call reported. */
void thread_first(uint32_t count);

/* The calling thread is about to continue natively: its trail ends. */
void thread_leaves(struct thread *thread);

/* The thread needs our handlers no more. 1: it was the last, or is alone: no thread needs them. */
int thread_left(struct thread *thread);

/* Whether another process may share our handlers, as the kernel has them. */
int thread_has_guests(void);

/* That run as translated code. */
uint32_t thread_count(void);

/*
 * clone, clone3, fork, vfork: thread->regs ask for it; `next` is behind it. The result for the
 * parent.
 */
long thread_clone_call(struct thread *thread, uint64_t next);

/* exit, exit_group: does not return. */
void thread_exit_call(struct thread *thread) __attribute__((noreturn));

#endif
