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
 * `plain` opens a file, or writes to one. A write by /proc/PID/mem bypasses all guards, so all
 * translations are dropped.
 */
long code_opened(struct thread *thread, long (*plain)(const struct thread *));
long code_written(struct thread *thread, long (*plain)(struct thread *));

/*
 * read(2), write(2) or the like by `call`: in the process's own /proc/PID/mem nothing is where the
 * engine is.
 */
long code_memory(struct thread *thread, long (*call)(struct thread *));

/* The process was running before us: look at what its descriptors can do. No lock is held. */
void code_attached(void);

/* ioctl(2) by `call`: some begin userfaultfd(2). */
long code_ioctl(struct thread *thread, long (*call)(struct thread *));

/*
 * Calls that change mappings, fork(2) among them, may wait for another thread of the program: no
 * lock may be held over one.
 */
int code_call_waits(void);

#endif
