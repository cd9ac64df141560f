/* SPDX-License-Identifier: MIT */
/* Back to native code, for good: what a thread does when the engine can't go on with it. */
#ifndef AGENT_TRAIL_LEAVE_H
#define AGENT_TRAIL_LEAVE_H

#include "agent/trail/thread.h"

/* Go on natively at pc, with thread->regs and all else as the program has it. Does not return. */
void leave(struct thread *thread, uint64_t pc) __attribute__((noreturn));

#endif
