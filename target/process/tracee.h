/* SPDX-License-Identifier: MIT */
/*
 * One thread of another process under ptrace(2): seize it, stop it, wait for it, let it go.
 *
 * All calls on a tracee come from the thread that seized it. When that thread ends, the kernel
 * detaches all its tracees, also those that could not be stopped: this is how a stop is given up.
 * Its stops are fetched by tracee_wait() alone, so nothing else in the process may wait for just
 * any child at that time: it would take them.
 */
#ifndef TARGET_PROCESS_TRACEE_H
#define TARGET_PROCESS_TRACEE_H

#include <stdint.h>
#include <sys/types.h>

/* What a tracee stopped for. */
enum tracee_stop {
	/* on its way to user mode, by PTRACE_INTERRUPT; nothing is half done */
	TRACEE_INTERRUPTED = 1,
	TRACEE_GROUP_STOP, /* SIGSTOP and the like hold the whole process */
	TRACEE_SYSCALL,	   /* entry to or exit from a system call */
	TRACEE_SIGNAL,	   /* about to get a signal */
	TRACEE_OTHER,
};

/* A time to give up at, from now. */
uint64_t tracee_deadline(unsigned int ms);
int tracee_late(uint64_t deadline_ns);

/*
 * Wait for the tracee's next stop. *signal is the signal that it is about to get, or the stop's
 * own. Returns an enum tracee_stop, -ESRCH when it has ended, -ETIMEDOUT. Where the caller has
 * SIGCHLD blocked, it is awaited, and taken.
 */
int tracee_wait(pid_t tid, uint64_t deadline_ns, int *signal);

/* The same without waiting. 0: not stopped yet. */
int tracee_look(pid_t tid, int *signal);

/* Seize a thread and ask it to stop; also one that was seized before. 0, -ESRCH, -EPERM. */
int tracee_seize(pid_t tid);

/*
 * Wait until it has. Signals that it was about to get are passed on. Returns 0, or leaves it alone:
 * -WM_E_STOPPED when the process is stopped already, -ESRCH. After -ETIMEDOUT it is still seized,
 * and will be until it is detached at a later stop or this thread ends.
 */
int tracee_stop(pid_t tid, uint64_t deadline_ns);

/* Go on from a stop of this kind, with its signal, and stop as soon as may be. 0 or -ESRCH. */
int tracee_interrupt(pid_t tid, int stop, int signal);

/*
 * Let a stopped tracee go. Of one that was killed, fetch the end: until its tracer does that, its
 * process never ends for its parent. -ESRCH: it has ended; -ETIMEDOUT: it neither stops nor ends.
 */
int tracee_detach(pid_t tid);

#endif
