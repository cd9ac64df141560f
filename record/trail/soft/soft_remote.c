/* SPDX-License-Identifier: MIT */
#include "record/trail/soft/soft_remote.h"

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

static int memory_open(struct remote_thread *remote)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", remote->tid);
	remote->mem = open(path, O_RDWR | O_CLOEXEC);
	return remote->mem < 0 ? -errno : 0;
}

/* No module has room: use the program's first instructions. If we die, they are not restored. */
static int place_over(struct remote_thread *remote)
{
	unsigned char code[REMOTE_CODE_BYTES] = { 0 };
	uint64_t at = halt_pc(&remote->saved);
	size_t bytes = remote_code_bytes();
	int err = remote_thread_read(remote, at, remote->stood, bytes);

	if (!err &&
	    ptrace(PTRACE_SETOPTIONS, remote->tid, 0, SOFT_REMOTE_OPTIONS | PTRACE_O_EXITKILL))
		err = -errno;
	if (err)
		return err;
	remote->at = remote->place = at;
	remote->lock = -1; /* it has one thread, and that is ours */
	remote_code_fill(code, &remote->saved, remote->mask);
	return remote_thread_write(remote, at, code, bytes);
}

static int place(struct remote_thread *remote)
{
	struct maps maps;
	int err = maps_read(&maps, remote->tid);

	if (!err)
		err = remote_thread_place(remote, &maps);
	maps_release(&maps);
	return err == -ENOSPC ? place_over(remote) : err;
}

int soft_remote_begin(struct soft_remote *remote, pid_t pid)
{
	struct remote_thread *thread = &remote->thread;
	int err;

	*remote = (struct soft_remote){ .pid = pid,
					.thread = { .tid = pid, .mem = -1, .seized = 1 } };
	if (ptrace(PTRACE_GETREGS, pid, 0, &remote->regs) ||
	    ptrace(PTRACE_SETOPTIONS, pid, 0, SOFT_REMOTE_OPTIONS))
		return -errno;
	if ((remote->regs.cs & 0xff) != LONG_MODE_SELECTOR)
		return -WM_E_FOREIGN_ARCH;
	err = leave_call(pid);
	if (!err)
		err = halt_regs_get(pid, &thread->saved);
	if (err)
		return err;
	thread->saved.regs.orig_rax = (uint64_t)-1; /* no call is to be made again */
	remote->regs = thread->saved.regs;
	if (ptrace(PTRACE_GETSIGMASK, pid, sizeof(thread->mask), &thread->mask))
		return -errno;
	err = memory_open(thread);
	return err ? err : place(thread);
}

int soft_remote_call(struct soft_remote *remote, long number, const uint64_t arguments[6],
		     int64_t *result)
{
	long got;
	int err;

	if (!remote->thread.at)
		return -ESRCH;
	err = remote_thread_syscall(&remote->thread, number, arguments, &got);
	*result = err ? 0 : got;
	return err;
}

int soft_remote_write(const struct soft_remote *remote, uint64_t address, const void *bytes,
		      size_t count)
{
	const struct iovec from = { (void *)(uintptr_t)bytes, count };
	const struct iovec to = { (void *)(uintptr_t)address, count };
	ssize_t put = process_vm_writev(remote->pid, &from, 1, &to, 1, 0);

	if (put < 0)
		return -errno;
	return put == (ssize_t)count ? 0 : -EFAULT;
}

int soft_remote_end(struct soft_remote *remote, uint64_t rip, uint64_t rdi, uint64_t rsi,
		    uint64_t rdx)
{
	struct remote_thread *thread = &remote->thread;
	int err;

	thread->saved.regs.rip = rip;
	thread->saved.regs.rdi = rdi;
	thread->saved.regs.rsi = rsi;
	thread->saved.regs.rdx = rdx;
	err = remote_thread_return(thread);
	return err ? err : remote_thread_vacate(thread);
}

int soft_remote_let_go(struct soft_remote *remote)
{
	return remote_thread_end(&remote->thread);
}
