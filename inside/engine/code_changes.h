/* SPDX-License-Identifier: MIT */
/* The program's code as it changes: mapped, unmapped, made writable, written. */
#ifndef INSIDE_ENGINE_CODE_CHANGES_H
#define INSIDE_ENGINE_CODE_CHANGES_H

#include "inside/engine/engine_thread.h"

/*
 * mmap, munmap, mprotect and the like, made by `plain`: what was translated of code that they
 * change is given up.
 */
long code_call(struct thread *thread, long (*plain)(const struct thread *));

/* 1: others write the program's memory from now on, and no guard shows it; -1: one less does. */
void code_share(int change);

/*
 * A call is over that may have opened a file, written one, or begun userfaultfd(2); thread->regs
 * still ask for it. A write by /proc/PID/mem bypasses all guards, so all translations are dropped.
 * Also in a handler, for a signal that came right behind the call. No lock is held.
 */
void code_call_over(const struct thread *thread, long result);

/*
 * read(2), write(2) or the like by `call`: in the process's own /proc/PID/mem nothing is where the
 * engine is.
 */
long code_memory(struct thread *thread, long (*call)(struct thread *));

/* The process was running before us: look at what its descriptors can do. No lock is held. */
void code_attached(void);

/*
 * Calls that change mappings, fork(2) among them, may wait for another thread of the program: no
 * lock may be held over one.
 */
int code_call_waits(void);

#endif
