/* SPDX-License-Identifier: MIT */
#include "target/claim/claimant.h"

#include "target/process/target.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t claimant_namespace(void)
{
	struct stat found;

	return stat("/proc/self/ns/pid", &found) ? 0 : found.st_ino;
}

void claim_owner_self(struct claim_owner *owner)
{
	*owner = (struct claim_owner){ .pid = getpid(),
				       .start_time = target_start_time(getpid()),
				       .pid_namespace = claimant_namespace(),
				       .uid = geteuid() };
	target_comm(owner->pid, owner->pid, owner->comm);
}

int claimant_lives(struct claim_owner *owner)
{
	uint64_t start_time = target_start_time(owner->pid);
	long uid;

	/* /proc may be mounted so that it hides other users' (hidepid=) */
	if (!start_time)
		return !kill(owner->pid, 0) || errno == EPERM;
	if (start_time != owner->start_time)
		return 0;
	uid = target_status_number(owner->pid, "Uid");
	if (uid >= 0)
		owner->uid = (uid_t)uid;
	target_comm(owner->pid, owner->pid, owner->comm);
	return 1;
}

uint64_t claimant_start_ns(pid_t tid)
{
	return target_start_time(tid) * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}
