/* SPDX-License-Identifier: MIT */
/*
 * Leave the engine and return to native code. A process does so if the engine can't continue with
 * one of its threads, or if the tool ends the recording.
 *
 * All threads leave, each at one of its own instructions. A signal asks a thread that runs
 * translated code; a thread in a system call leaves after it. The kernel gets the program's
 * handlers back at the start, except for action_own. The engine's handlers pass those on until the
 * last thread has left.
 */
#ifndef INSIDE_ENGINE_LEAVE_H
#define INSIDE_ENGINE_LEAVE_H

#include "inside/engine/engine_thread.h"

/*
 * Continue natively at pc, with thread->regs and all other state of the program. Does not return.
 */
void leave(struct thread *thread, uint64_t pc) __attribute__((noreturn));

/* Ask all threads to leave. The caller's own leaves when it next exits the engine. */
void leave_ask(void);
int leave_is_asked(void);

/*
 * Also ask threads in system calls, which otherwise leave after them. No thread continues natively
 * before the last has left; and the last not before the others, where there are any.
 */
void leave_together(int has_others);

/*
 * Ask threads in translated code to come to the engine, and to continue from there: in the newest
 * translations.
 */
void leave_renew(void);

/*
 * The signal that asks a thread to leave. The tool sends it, too: the thread then checks
 * leave_is_wanted().
 */
int leave_is_told(const siginfo_t *info);

/* The tool that has found this process inside may be about to signal it: wait for that. */
void leave_await_tellers(void);

/*
 * The thread has left: discard the requests that are pending, which are not for the program, and
 * may find no handler. `is_last`: the process has left too; no request comes later.
 */
void leave_untold(struct thread *thread, int is_last);

/*
 * Threads were asked to leave; or another process is about to trace this one, and no thread was
 * asked yet.
 */
int leave_is_wanted(void);

/*
 * A thread has left, except that it does not run natively yet. `is_last`: all others had left, and
 * the kernel has the program's handlers back.
 *
 * If all leave together, no thread continues before the last has left. It might install its own
 * handlers while others still need the engine's.
 */
void leave_wait(int is_last);

/*
 * Sleep briefly in that wait. A thread in vfork(2), or in an uninterruptible call, may take long.
 * LEAVE_POLLS_MAX bounds the wait.
 */
void leave_poll(void);
#define LEAVE_POLLS_MAX 2000u

/* Threads that may be asked: each itself, at its beginning and its end. */
void leave_enlist(struct thread *thread);
void leave_delist(struct thread *thread);

/* Whether one of them is so. Not in a handler that interrupts the engine. */
int leave_any(int (*is)(const struct thread *thread, uint64_t what), uint64_t what);

/*
 * Before and after the process is copied. is_copy: in the copy, where no thread is enlisted any
 * more. All signals are held.
 */
void leave_copy_begin(void);
void leave_copy_end(int is_copy);

/* The thread that asks is all that there is. Not in a handler. */
int leave_is_alone(void);

#endif
