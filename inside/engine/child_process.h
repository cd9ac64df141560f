/* SPDX-License-Identifier: MIT */
/*
 * The processes that this one makes, and the programs that it executes: recorded too, where the
 * tool gives a page for each (abi/engine.h).
 */
#ifndef INSIDE_ENGINE_CHILD_PROCESS_H
#define INSIDE_ENGINE_CHILD_PROCESS_H

#include "inside/engine/engine_thread.h"

/* Whether children are recorded. */
int process_follows(void);

/* From now on its children have other numbers than the tool knows: they are not recorded. */
void process_is_apart(void);

/* Take an entry for a child that is about to be made. NULL: none is free. */
struct engine_child *process_take(void);

/* A child was made that has no entry: counted. */
void process_unfollowed(uint64_t flags);

/* What the child will have: all ids below `first_id`; 0: none. */
void process_made(struct thread *child, uint32_t first_id);

/*
 * In the parent: its number, or an error's. `is_reaped`: by others than process_meet() knows of, so
 * wait for the tool at once.
 */
void process_born(struct thread *child, long pid, int is_reaped);

/*
 * Before a call that may reap children: the tool is to know of them. Else how they end is lost, and
 * their numbers may be others'. Not in fork(2), where the parent would sleep.
 */
void process_meet(void);

/*
 * In the child, a copy: get a channel of its own from the tool, which may take a moment. 0, or
 * -errno: it has none, and runs natively.
 */
int process_become(const struct thread *child);

/*
 * The caller is about to trace a thread. If another recorded process has it, the tool has that
 * process leave the engine first, and no longer traces one of vfork(2). 0; -EPERM: it can't leave.
 * If thread->is_tracing then, process_traced() must follow: behind the call, or where a signal
 * breaks it off. `seizes`: the thread waits until then, so that it does not run on untraced.
 */
long process_is_traced(struct thread *thread, uint32_t tid, int seizes);
void process_traced(struct thread *thread);

/*
 * The calling thread leaves, and runs natively once process_left() has returned: it waits for a
 * tracer that asked for that. Until then, tracers of its process's other threads wait.
 */
void process_leaves(void);
void process_left(uint32_t tid);

/* In a child that shares our memory and will run natively until it executes a program. */
void process_shares_memory(const struct thread *child);
/* And when it is about to. */
void process_shared_memory(const struct thread *child);

/* The process ends, by the program's own call. */
void process_ends(long status);

/* Before execve(2): what becomes of it is to be recorded. And behind it, if it failed. */
void process_executes(const struct thread *thread);
void process_executed(void);

#endif
