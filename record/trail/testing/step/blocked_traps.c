/* SPDX-License-Identifier: MIT */
/*
 * A SIGTRAP that comes to a thread which blocks it. While the thread is stepped it is unblocked
 * (conceal.c), so
 *
 * - one that was sent stops the thread at once, and is gone by then. It is held here, and sent
 *   again, with all its siginfo, before each system call, where the program blocks it: sigpending()
 *   reports it, sigwait() takes it.
 * - one that an instruction raises, int3 say, would find its handler. The kernel ends a process for
 *   that, so we let it.
 *
 * The kernel lets no process send a signal as if another's kill() had sent it
 * (rt_tgsigqueueinfo(2)). We send such a signal with our own pid and code, and correct them when a
 * handler or sigwaitinfo() is to see them. Only signalfd(2) shows ours.
 */
#include "record/trail/testing/step/step_own.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * As we send one that can't be sent as it was. In a pid namespace that we are not in we have no
 * number.
 */
static int is_stand_in(const struct step_thread *thread, const siginfo_t *info)
{
	return thread->held.si_signo == SIGTRAP && info->si_signo == SIGTRAP &&
	       info->si_code == SI_TKILL && (!info->si_pid || info->si_pid == getpid());
}

static int may_send(const siginfo_t *info)
{
	return info->si_code < 0 && info->si_code != SI_TKILL;
}

void step_hold(struct step_thread *thread)
{
	siginfo_t info = { 0 };

	/* of several the kernel keeps the first as well */
	if (!thread->has_trap_pending && !ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) &&
	    !is_stand_in(thread, &info))
		thread->held = info;
	thread->has_trap_pending = 1;
}

void step_give_pending(const struct step *step, struct step_thread *thread)
{
	if (thread->has_trap_pending && !step->is_trap_ignored) {
		if (!may_send(&thread->held) ||
		    syscall(SYS_rt_tgsigqueueinfo, step->pid, thread->tid, SIGTRAP, &thread->held))
			syscall(SYS_tgkill, step->pid, thread->tid, SIGTRAP);
	}
	thread->has_trap_pending = 0;
}

void step_report_pending(struct step_thread *thread)
{
	siginfo_t info = { 0 };

	if (!ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info) && is_stand_in(thread, &info))
		ptrace(PTRACE_SETSIGINFO, thread->tid, 0, &thread->held);
}

void step_waited(const struct step_thread *thread, const struct user_regs_struct *regs)
{
	siginfo_t info;
	struct iovec here = { &info, sizeof(info) };
	struct iovec there = { (void *)(uintptr_t)regs->rsi, sizeof(info) };

	if (regs->rax != SIGTRAP || !regs->rsi ||
	    process_vm_readv(thread->tid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(info) ||
	    !is_stand_in(thread, &info))
		return;
	here.iov_base = (void *)&thread->held;
	(void)!process_vm_writev(thread->tid, &here, 1, &there, 1, 0);
}

static int has_raised(const struct step_thread *thread)
{
	siginfo_t info = { 0 };

	ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &info);
	return thread->insn.traits & INSN_TRAPS ||
	       (info.si_code == SI_KERNEL && thread->insn.kind == TRAIL_STOP);
}

int step_is_fatal(struct step *step, struct step_thread *thread, struct user_regs_struct *regs,
		  int signal)
{
	uint64_t at;

	if (thread->is_dying) {
		thread->is_stopped = ptrace(PTRACE_CONT, thread->tid, 0, SIGTRAP) < 0;
		return 1;
	}
	if (signal != SIGTRAP || !thread->is_trap_blocked || !has_raised(thread))
		return 0;
	at = thread->at;
	step_ran(step, thread, regs->rip);
	thread->at = regs->rip;
	thread->is_over = 0;
	thread->is_dying = 1;
	/* once more, with the mask that the program has */
	step_clear_flag(thread, regs);
	regs->rip = at;
	ptrace(PTRACE_SETREGS, thread->tid, 0, regs);
	step_show_mask(thread);
	thread->signal = SIGTRAP;
	thread->is_stopped = ptrace(PTRACE_CONT, thread->tid, 0, 0) < 0;
	return 1;
}
