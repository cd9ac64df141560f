/* SPDX-License-Identifier: MIT */
/*
 * Remote system calls: one thread of another process is stopped, makes a few system calls for the
 * tool, and continues with every register, its signal mask and its stack unchanged.
 *
 *   1. stop     PTRACE_SEIZE, PTRACE_INTERRUPT: the thread is on its way back to user mode, an
 *               interrupted system call not yet decided to restart or to fail
 *               A pending fault is delivered first: its frame must show the thread's own registers
 *   2. place    the code of arch/remote_syscall.h goes behind the end of some module's text, into
 *               the free rest of its last page
 *   3. enter    registers set to the first call; then all signals blocked
 *   4. call     run to the system call's entry and to its exit; set registers for the next
 *   5. return   PTRACE_INTERRUPT brings the thread to a stop as in 1; mask, then registers as saved
 *   6. leave    restore the bytes of 2; detach
 *
 * Why all this survives kill -9 of the tool at any moment: the kernel then lets the thread run on
 * with the registers it has. Before 3 and after 5 these are its own. Between, the code restores
 * them, and the mask, by itself. In 3 and 5 the order is such that never is the mask ours while the
 * registers are the program's. What then stays behind are the bytes of 2, in no one's way; the next
 * loan leaves them and takes other room. So that the death of a recorder leaves none, another
 * process is the tracer (inject.c). Not covered: a signal that comes between the
 * stop and such a death is handled before an interrupted pause(2) or the like restarts, not as its
 * end; and the few calls that no stop leaves alone (epoll_wait(2) and others of signal(7)) say
 * EINTR when the tool dies in the microseconds between the stop and the restart (halt_restart()).
 *
 * No signal is lost: those that come meanwhile stay pending until 5. A system call that was
 * interrupted goes through the kernel's own decision in 6, with them in view, so SA_RESTART, EINTR
 * and restart_syscall(2) are as without the tool. A thread inside a restartable sequence (rseq(2))
 * is continued and stopped again: the kernel must abort its sequence before other code runs.
 *
 * Several tools may each have a thread of one process. The bytes at the places of 2 show which are
 * free, so only one tool at a time looks, writes, and restores: tool_lock_open().
 */
#ifndef TARGET_PROCESS_REMOTE_THREAD_H
#define TARGET_PROCESS_REMOTE_THREAD_H

#include "arch/remote_syscall.h"
#include "base/maps.h"

#include <stdint.h>
#include <sys/types.h>

#define REMOTE_CODE_BYTES 512

struct remote_thread {
	pid_t tid;
	int mem;	/* /proc/TID/mem */
	uint64_t at;	/* where the code is; 0: not yet */
	uint64_t place; /* that of step 2; 0: none */
	int lock;	/* with a place only: where tools take turns; -1: there is no other tool */
	unsigned char stood[REMOTE_CODE_BYTES];
	struct halt_regs saved;
	uint64_t mask;
	int entered;
	int is_stopped; /* as in 1 */
	int seized;
};

/*
 * Step 1. 0, or the thread is left alone: -WM_E_STOPPED, -ESRCH, -EPERM; -EAGAIN: not a good
 * moment, try again; -EOPNOTSUPP: its system calls go elsewhere (PR_SET_SYSCALL_USER_DISPATCH), or
 * it runs 32-bit code; -ETIMEDOUT: it can't be stopped now, and is let go when the calling thread
 * ends.
 */
int remote_thread_stop(struct remote_thread *remote, pid_t tid, uint64_t deadline_ns);

/*
 * Step 2. 0; -ENOSPC when no module has room; -EBUSY: it is another tool's turn, and stays so;
 * -errno.
 */
int remote_thread_place(struct remote_thread *remote, const struct maps *maps);

/*
 * Undo step 2, while no thread is in that code. Returns 0, or the error of writing. While another
 * tool keeps the lock, the code stays there, and does no harm.
 */
int remote_thread_vacate(struct remote_thread *remote);

/* Steps 3 and 4: what the call returned, -errno as the kernel has it; -ESRCH, -EINTR: it failed. */
int remote_thread_syscall(struct remote_thread *remote, long number, const uint64_t arguments[6],
			  long *result);

/* The same with registers made by the caller. */
int remote_thread_run(struct remote_thread *remote, const struct halt_regs *regs, long *result);

/* From now on the code at `at`, in Waymark's own memory, makes the calls; undo step 2. */
int remote_thread_move(struct remote_thread *remote, uint64_t at);

/* Step 5. The thread stays stopped. */
int remote_thread_return(struct remote_thread *remote);

/*
 * Steps 5, when it is due, and 6. Safe on a zeroed loan and after any error. An error says that the
 * thread is on its own: the code that it is in must stay where it is.
 */
int remote_thread_end(struct remote_thread *remote);

/* Write to the process's memory, whatever its protection. All or -errno. */
int remote_thread_write(const struct remote_thread *remote, uint64_t address, const void *bytes,
			size_t count);
int remote_thread_read(const struct remote_thread *remote, uint64_t address, void *bytes,
		       size_t count);

#endif
