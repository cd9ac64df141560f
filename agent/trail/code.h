/* SPDX-License-Identifier: MIT */
/* The program's code as it changes: mapped, unmapped, made writable, written. */
#ifndef AGENT_TRAIL_CODE_H
#define AGENT_TRAIL_CODE_H

#include "agent/trail/thread.h"

/* mmap, munmap, mprotect and the like, made by `plain`: what was translated of code that they change is given up. */
long code_call(struct thread *thread, long (*plain)(const struct thread *));

#endif
