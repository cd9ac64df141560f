/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_loan.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <waymark/error.h>

#define SYSCALL_TRAP (SIGTRAP | 0x80)
#define SYSCALL_CODE 0x050fu
#define SYSCALL_CODE_MASK 0xffffu
#define LONG_MODE_SELECTOR 0x33 /* the kernel's, as the low byte also in a guest of Xen */
#define WORD_BYTES 8u

/* On to its next stop at a system call; what else it stops for waits. */
static int on(struct soft_loan *loan)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, loan->pid, 0, 0))
			return -errno;
		while (waitpid(loan->pid, &status, __WALL) < 0)
			if (errno != EINTR)
				return -errno;
		if (!WIFSTOPPED(status))
			return -ESRCH;
		if (WSTOPSIG(status) == SYSCALL_TRAP)
			return 0;
		/* SIGSTOP can't be blocked; it is sent again when all is done */
		if (!(status >> 16))
			loan->signals |= UINT64_C(1) << (WSTOPSIG(status) - 1);
	}
}

int soft_loan_begin(struct soft_loan *loan, pid_t pid)
{
	const uint64_t all = UINT64_MAX;
	int err;

	*loan = (struct soft_loan){ .pid = pid };
	if (ptrace(PTRACE_GETREGS, pid, 0, &loan->regs))
		return -errno;
	if ((loan->regs.cs & 0xff) != LONG_MODE_SELECTOR)
		return -WM_E_FOREIGN_ARCH;
	err = on(loan); /* out of execve(2) */
	if (err)
		return err;
	if (ptrace(PTRACE_GETREGS, pid, 0, &loan->regs) ||
	    ptrace(PTRACE_GETSIGMASK, pid, sizeof(loan->mask), &loan->mask) ||
	    ptrace(PTRACE_SETSIGMASK, pid, sizeof(all), &all))
		return -errno;
	loan->at = loan->regs.rip & ~(uint64_t)(WORD_BYTES - 1); /* in one page */
	errno = 0;
	loan->stood = ptrace(PTRACE_PEEKTEXT, pid, loan->at, 0);
	if (errno)
		return -errno;
	return ptrace(PTRACE_POKETEXT, pid, loan->at,
		      (loan->stood & ~(long)SYSCALL_CODE_MASK) | (long)SYSCALL_CODE)
		       ? -errno
		       : 0;
}

int soft_loan_call(struct soft_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *result)
{
	struct user_regs_struct regs = loan->regs;
	int err = 0;

	regs.rip = loan->at;
	regs.rax = (uint64_t)number;
	regs.orig_rax = (uint64_t)-1; /* no call is to be made again */
	regs.rdi = arguments[0];
	regs.rsi = arguments[1];
	regs.rdx = arguments[2];
	regs.r10 = arguments[3];
	regs.r8 = arguments[4];
	regs.r9 = arguments[5];
	if (ptrace(PTRACE_SETREGS, loan->pid, 0, &regs))
		return -errno;
	for (int i = 0; i < 2 && !err; i++) /* its entry, its exit */
		err = on(loan);
	if (err)
		return err;
	if (ptrace(PTRACE_GETREGS, loan->pid, 0, &regs))
		return -errno;
	*result = (int64_t)regs.rax;
	return 0;
}

int soft_loan_write(const struct soft_loan *loan, uint64_t address, const void *bytes, size_t count)
{
	const struct iovec from = { (void *)(uintptr_t)bytes, count };
	const struct iovec to = { (void *)(uintptr_t)address, count };
	ssize_t put = process_vm_writev(loan->pid, &from, 1, &to, 1, 0);

	if (put < 0)
		return -errno;
	return put == (ssize_t)count ? 0 : -EFAULT;
}

int soft_loan_end(struct soft_loan *loan, uint64_t rip, uint64_t rdi, uint64_t rsi)
{
	struct user_regs_struct regs = loan->regs;

	regs.rip = rip;
	regs.rdi = rdi;
	regs.rsi = rsi;
	regs.orig_rax = (uint64_t)-1;
	if (ptrace(PTRACE_POKETEXT, loan->pid, loan->at, loan->stood) ||
	    ptrace(PTRACE_SETREGS, loan->pid, 0, &regs) ||
	    ptrace(PTRACE_SETSIGMASK, loan->pid, sizeof(loan->mask), &loan->mask))
		return -errno;
	return 0;
}

int soft_loan_let_go(const struct soft_loan *loan)
{
	for (int signal = 1; signal <= 64; signal++)
		if (loan->signals & UINT64_C(1) << (signal - 1))
			kill(loan->pid, signal);
	return ptrace(PTRACE_DETACH, loan->pid, 0, 0) ? -errno : 0;
}
