/* SPDX-License-Identifier: MIT */
#include "record/trail/privileges.h"
#include "target/process/program.h"
#include "target/process/target.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* A text of the process's, as much of it as there is. Whether it ends. */
static int text_read(pid_t tid, uint64_t at, char *text, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		size_t some = 4096 - (at + got) % 4096;
		struct iovec here = { text + got, some < bytes - got ? some : bytes - got };
		struct iovec there = { (void *)(uintptr_t)(at + got), here.iov_len };
		ssize_t read = process_vm_readv(tid, &here, 1, &there, 1, 0);

		if (read <= 0)
			return 0;
		if (memchr(text + got, 0, (size_t)read))
			return 1;
		got += (size_t)read;
	}
	return 0;
}

/* The file that a thread is about to execute, as we find it; 0: unknown. */
static int file_of(pid_t tid, const struct user_regs_struct *regs, char *path, size_t bytes)
{
	int is_at = regs->orig_rax == SYS_execveat, folder = (int)regs->rdi, used;
	char name[PATH_MAX];

	if (!text_read(tid, is_at ? regs->rsi : regs->rdi, name, sizeof(name)))
		return 0;
	if (name[0] == '/')
		used = snprintf(path, bytes, "/proc/%d/root%s", tid, name);
	else if (is_at && folder != AT_FDCWD)
		used = snprintf(path, bytes, "/proc/%d/fd/%d%s%s", tid, folder, name[0] ? "/" : "",
				name);
	else
		used = snprintf(path, bytes, "/proc/%d/cwd/%s", tid, name);
	return used > 0 && (size_t)used < bytes;
}

int privileges_gained(pid_t tid, const struct user_regs_struct *regs)
{
	char path[2 * PATH_MAX];

	if ((regs->orig_rax != SYS_execve && regs->orig_rax != SYS_execveat) ||
	    target_status_mask(gettid(), "CapEff") >> CAP_SYS_PTRACE & 1)
		return 0;
	return target_status_number(tid, "NoNewPrivs") != 1 &&
	       file_of(tid, regs, path, sizeof(path)) && program_gains_rights(path);
}
