/* SPDX-License-Identifier: MIT */
/* The program's code as it changes: mapped, unmapped, made writable, written. */
#ifndef ENGINE_CODE_CHANGES_H
#define ENGINE_CODE_CHANGES_H

#include "engine/engine_thread.h"

/*
 * mmap, munmap, mprotect and the like, made by `plain`: what was translated of code that they
 * change is given up.
 */
long code_call(struct thread *thread, long (*plain)(const struct thread *));

/* The kernel is about to write to [start, start + bytes): guards there would be errors. */
void code_open(uint64_t start, uint64_t bytes);

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

/*
 * A call of the program's met -EFAULT. 1: that may have been a guard; all are gone, and the call
 * may be made again.
 */
int code_refused(void);

#endif
