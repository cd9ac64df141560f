/* SPDX-License-Identifier: MIT */
/*
 * Back to native code, for good: what a process does when the engine can't go on with a thread of it, or the tool wants no more. All
 * threads leave, each at an instruction of its own: who runs translated code is told by a signal, who is in a system call leaves
 * behind it. From the beginning the kernel has the program's handlers again, but for action_own: those are handed on by ours until the
 * last thread has left.
 */
#ifndef AGENT_TRAIL_LEAVE_H
#define AGENT_TRAIL_LEAVE_H

#include "agent/trail/thread.h"

/* Go on natively at pc, with thread->regs and all else as the program has it. Does not return. */
void leave(struct thread *thread, uint64_t pc) __attribute__((noreturn));

/* Ask all threads to leave; the caller's own does at its next way out of the engine. */
void leave_ask(void);
int leave_is_asked(void);

/* Ask those too that are in system calls, which leave behind them else; and none goes on natively before the last has left. */
void leave_together(void);

/*
 * The signal that asks a thread to leave; it is the same in all processes. leave_tell() sends it to another process, which then checks
 * leave_is_wanted().
 */
int leave_is_told(const siginfo_t *info);
void leave_tell(uint32_t tid);

/* Threads were asked to leave; or another process is about to trace this one, and no thread was asked yet. */
int leave_is_wanted(void);

/*
 * A thread has left all but for going on natively; `is_last`: all others had, and our handlers are given back. Where all leave together, none
 * goes on before that: it might ask the kernel for handlers of its own where others still need ours.
 */
void leave_wait(int is_last);

/* A moment of that: who is in vfork(2), or in a call that nothing breaks off, may be long in coming. So many of them at most. */
void leave_nap(void);
#define LEAVE_NAPS_MAX 2000u

/* Threads that may be asked: each itself, at its beginning and its end. */
void leave_enlist(struct thread *thread);
void leave_delist(struct thread *thread);

/* A copy of the process is about to be made, and is made: is_copy in that, where nobody is enlisted any more. All signals are held. */
void leave_copy_begin(void);
void leave_copy_end(int is_copy);

/* The thread that asks is all that there is. Not in a handler. */
int leave_is_alone(void);

#endif
