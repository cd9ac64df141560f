/* SPDX-License-Identifier: MIT */
#include "branch/soft/soft_asked.h"

#include "base/maps.h"
#include "branch/soft/soft_ended.h"
#include "branch/step/rights.h"

#include <errno.h>
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

static int has_channel(const struct soft_channel *channel, pid_t tid)
{
	struct maps maps;
	int found = 0;

	if (!maps_read(&maps, tid))
		for (size_t i = 0; i < maps.count && !found; i++)
			found = maps.list[i].inode == channel->inode &&
				maps.list[i].device == channel->device;
	maps_release(&maps);
	return found;
}

int asked_is_thread(const struct soft_channel *channel, pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", (int)pid, (int)tid);
	return tid > 0 && !access(path, F_OK) && has_channel(channel, tid);
}

int asked_child(const struct soft_channel *channel, struct target *target, pid_t pid, int end_fd,
		pid_t parent, uid_t uid)
{
	if (target_read(target, pid)) /* hidden from us, if it lives */
		return end_fd >= 0 && !ended_is(end_fd) ? -EPERM : -ESRCH;
	if (target->pid == pid && ((parent && target->ppid == parent) || target->uid == uid ||
				   asked_is_thread(channel, pid, pid)))
		return 0;
	return -EPERM;
}

int asked_must_look(const struct engine_channel *page)
{
	return !page->exec.number ||
	       !(target_status_mask(gettid(), "CapEff") >> CAP_SYS_PTRACE & 1);
}
