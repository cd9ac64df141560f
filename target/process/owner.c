/* SPDX-License-Identifier: MIT */
#include "target/process/owner.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

static _Thread_local int was_dumpable;

int owner_become(uid_t uid)
{
	was_dumpable = prctl(PR_GET_DUMPABLE) == 1;
	setfsuid(uid);
	/* it reports no failure; asked for an invalid user, it returns the present one */
	if ((uid_t)setfsuid((uid_t)-1) == uid)
		return 0;
	owner_leave();
	return -EPERM;
}

void owner_leave(void)
{
	int saved = errno;

	setfsuid(geteuid());
	/* the kernel took that away with either change (kernel/cred.c, commit_creds) */
	if (was_dumpable)
		prctl(PR_SET_DUMPABLE, 1);
	errno = saved;
}
