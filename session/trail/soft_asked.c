/* SPDX-License-Identifier: MIT */
#include "session/trail/soft_asked.h"

#include "session/target.h"
#include "session/trail/rights.h"

#include <linux/capability.h>
#include <stdio.h>
#include <sys/user.h>
#include <unistd.h>

int asked_gains(const struct engine_channel *page, pid_t tid)
{
	const struct engine_exec exec = page->exec;
	const struct user_regs_struct regs = {
		.orig_rax = exec.number,
		.rdi = exec.arguments[0],
		.rsi = exec.arguments[1],
		.rdx = exec.arguments[2],
		.r10 = exec.arguments[3],
		.r8 = exec.arguments[4],
	};

	return rights_gained(tid, &regs);
}

int asked_is_thread(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && !access(path, F_OK);
}

int asked_must_look(const struct engine_channel *page)
{
	return !page->exec.number ||
	       !(target_status_mask(gettid(), "CapEff") >> CAP_SYS_PTRACE & 1);
}
