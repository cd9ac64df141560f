/* SPDX-License-Identifier: MIT */
/*
 * A program that ignores SIGTRAP: a step's own SIGTRAP has the kernel replace that by the default
 * (conceal.c), for all threads and for the children that are made. So each thread or such child
 * that we let go first makes a system call for us that puts it back
 * (target/process/remote_thread.h). All its threads are stopped by then: one that is stepped
 * further would undo it.
 */
#include "base/maps.h"
#include "record/trail/testing/step/step_own.h"
#include "target/process/remote_thread.h"
#include "target/process/target.h"
#include "target/process/tracee.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <waymark/error.h>

#define STOP_MS 2000
#define TRIES 20 /* a thread in a restartable sequence is stopped again */
#define PAGE_BYTES 4096
#define MASK_BYTES 8

/* As rt_sigaction(2) has it. */
struct action {
	uint64_t handler, flags, restorer, mask;
};

static int lent(struct remote_thread *remote, long number, const uint64_t arguments[6],
		long *result)
{
	int err = remote_thread_syscall(remote, number, arguments, result);

	return err ? err : *result < 0 && *result > -PAGE_BYTES ? (int)*result : 0;
}

/*
 * What else the program has said of SIGTRAP, its flags and its mask, is still there and stays.
 * `at`: room for it.
 */
static int handler_put(struct remote_thread *remote, uint64_t at)
{
	const uint64_t ask[6] = { SIGTRAP, 0, at, MASK_BYTES };
	const uint64_t put[6] = { SIGTRAP, at, 0, MASK_BYTES };
	struct action action = { 0 };
	long result;
	int err = lent(remote, SYS_rt_sigaction, ask, &result);

	if (!err)
		err = remote_thread_read(remote, at, &action, sizeof(action));
	if (err || action.handler != (uint64_t)(uintptr_t)SIG_DFL)
		return err;
	action.handler = (uint64_t)(uintptr_t)SIG_IGN;
	err = remote_thread_write(remote, at, &action, sizeof(action));
	return err ? err : lent(remote, SYS_rt_sigaction, put, &result);
}

static int ignore(struct remote_thread *remote)
{
	const uint64_t map[6] = {
		0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0
	};
	struct maps maps;
	long at, ignored;
	int err = maps_read(&maps, remote->tid);

	if (!err)
		err = remote_thread_place(remote, &maps);
	maps_release(&maps);
	if (!err)
		err = lent(remote, SYS_mmap, map, &at);
	if (err)
		return err;
	err = handler_put(remote, (uint64_t)at);
	lent(remote, SYS_munmap, (const uint64_t[6]){ (uint64_t)at, PAGE_BYTES }, &ignored);
	return err;
}

/*
 * Before a system call that is to be made without us, as one that executes a program which gains
 * rights: back to before its instruction.
 */
static void call_take_back(pid_t tid)
{
	struct __ptrace_syscall_info info = { 0 };
	struct user_regs_struct regs;
	uint64_t number;
	int status;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY || ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return;
	number = regs.orig_rax;
	regs.orig_rax = (unsigned long long)-1;
	if (ptrace(PTRACE_SETREGS, tid, 0, &regs) || ptrace(PTRACE_SYSCALL, tid, 0, 0) ||
	    waitpid(tid, &status, __WALL) != tid || !WIFSTOPPED(status) ||
	    WSTOPSIG(status) != CALL_STOP || ptrace(PTRACE_GETREGS, tid, 0, &regs))
		return;
	regs.rip -= SYSCALL_BYTES;
	regs.rax = number;
	ptrace(PTRACE_SETREGS, tid, 0, &regs);
}

/*
 * Where it is to get a signal, that one's handler has begun by then. -ETIMEDOUT: it is still ours,
 * and runs.
 */
static int ignore_again(pid_t tid, int signal, int *is_done)
{
	struct remote_thread remote;
	int err, end;

	ptrace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD);
	call_take_back(tid);
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) || ptrace(PTRACE_CONT, tid, 0, signal))
		return -ESRCH;
	for (int i = 0; i < TRIES; i++) {
		err = remote_thread_stop(&remote, tid, tracee_deadline(STOP_MS));
		if (err != -EAGAIN)
			break;
	}
	if (err)
		return err;
	err = ignore(&remote);
	*is_done = !err;
	end = remote_thread_end(&remote);
	return err ? err : end;
}

void step_await_children(const struct step *step, const struct step_thread *thread)
{
	unsigned long options = STEP_OPTIONS | STEP_OPTIONS_FOLLOW;

	if (!step->is_trap_ignored || step_follows(step)) /* which has them seized anyway */
		return;
	if (step->is_single)
		options &= ~(unsigned long)PTRACE_O_TRACECLONE;
	ptrace(PTRACE_SETOPTIONS, thread->tid, 0, options);
}

int step_release(struct step *step, struct step_thread *thread, int signal)
{
	int is_ignored = thread->is_stranger ? thread->ignores_trap : step->is_trap_ignored;
	int is_done = 0, err = 0;

	if (is_ignored && signal == SIGTRAP)
		signal = 0;
	/* a filter may end it for a call that it does not make itself */
	if (is_ignored && target_status_number(thread->tid, "Seccomp") > 0)
		err = -WM_E_SECCOMP;
	if (!is_ignored || err || (step->is_put_back && !thread->is_stranger)) {
		ptrace(PTRACE_DETACH, thread->tid, 0, signal);
		return 0;
	}
	err = ignore_again(thread->tid, signal, &is_done);
	if (is_done)
		step->is_put_back |= !thread->is_stranger;
	thread->is_stopped = err != -ETIMEDOUT;
	return err == -ETIMEDOUT ? err : 0;
}
