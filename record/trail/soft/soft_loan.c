/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_loan.h"

#include "target/process/tracee.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>
#include <waymark/error.h>

#define LONG_MODE_SELECTOR 0x33 /* the kernel's, as the low byte also in a guest of Xen */
#define WAIT_MS 10000

/* To where execve(2) is over. No signal comes before. */
static int leave_call(pid_t pid)
{
	uint64_t deadline_ns = tracee_deadline(WAIT_MS);
	int stop, signal;

	if (ptrace(PTRACE_SYSCALL, pid, 0, 0))
		return -errno;
	stop = tracee_wait(pid, deadline_ns, &signal);
	if (stop < 0)
		return stop;
	return stop == TRACEE_SYSCALL ? 0 : -EAGAIN;
}

static int memory_open(struct borrow *borrow)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", borrow->tid);
	borrow->mem = open(path, O_RDWR | O_CLOEXEC);
	return borrow->mem < 0 ? -errno : 0;
}

/* No module has room: use the program's first instructions. If we die, they are not restored. */
static int place_over(struct borrow *borrow)
{
	unsigned char code[BORROW_CODE_BYTES] = { 0 };
	uint64_t at = borrow_regs_pc(&borrow->saved);
	size_t bytes = borrow_code_bytes();
	int err = borrow_read(borrow, at, borrow->stood, bytes);

	if (!err &&
	    ptrace(PTRACE_SETOPTIONS, borrow->tid, 0, SOFT_LOAN_OPTIONS | PTRACE_O_EXITKILL))
		err = -errno;
	if (err)
		return err;
	borrow->at = borrow->place = at;
	borrow->turns = -1; /* it has one thread, and that is ours */
	borrow_code_fill(code, &borrow->saved, borrow->mask);
	return borrow_write(borrow, at, code, bytes);
}

static int place(struct borrow *borrow)
{
	struct maps maps;
	int err = maps_read(&maps, borrow->tid);

	if (!err)
		err = borrow_place(borrow, &maps);
	maps_release(&maps);
	return err == -ENOSPC ? place_over(borrow) : err;
}

int soft_loan_begin(struct soft_loan *loan, pid_t pid)
{
	struct borrow *borrow = &loan->borrow;
	int err;

	*loan = (struct soft_loan){ .pid = pid, .borrow = { .tid = pid, .mem = -1, .seized = 1 } };
	if (ptrace(PTRACE_GETREGS, pid, 0, &loan->regs) ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0, SOFT_LOAN_OPTIONS))
		return -errno;
	if ((loan->regs.cs & 0xff) != LONG_MODE_SELECTOR)
		return -WM_E_FOREIGN_ARCH;
	err = leave_call(pid);
	if (!err)
		err = borrow_regs_get(pid, &borrow->saved);
	if (err)
		return err;
	borrow->saved.regs.orig_rax = (uint64_t)-1; /* no call is to be made again */
	loan->regs = borrow->saved.regs;
	if (ptrace(PTRACE_GETSIGMASK, pid, sizeof(borrow->mask), &borrow->mask))
		return -errno;
	err = memory_open(borrow);
	return err ? err : place(borrow);
}

int soft_loan_call(struct soft_loan *loan, long number, const uint64_t arguments[6],
		   int64_t *result)
{
	long got;
	int err;

	if (!loan->borrow.at)
		return -ESRCH;
	err = borrow_syscall(&loan->borrow, number, arguments, &got);
	*result = err ? 0 : got;
	return err;
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

int soft_loan_end(struct soft_loan *loan, uint64_t rip, uint64_t rdi, uint64_t rsi, uint64_t rdx)
{
	struct borrow *borrow = &loan->borrow;
	int err;

	borrow->saved.regs.rip = rip;
	borrow->saved.regs.rdi = rdi;
	borrow->saved.regs.rsi = rsi;
	borrow->saved.regs.rdx = rdx;
	err = borrow_return(borrow);
	return err ? err : borrow_vacate(borrow);
}

int soft_loan_let_go(struct soft_loan *loan)
{
	return borrow_end(&loan->borrow);
}
