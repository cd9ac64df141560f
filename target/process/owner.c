/* SPDX-License-Identifier: MIT */
#include "target/process/owner.h"

#include <errno.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <unistd.h>

/* What the kernel takes away with either change (kernel/cred.c, commit_creds). */
static _Thread_local int was_dumpable, death_signal;

int owner_become(uid_t uid)
{
	was_dumpable = prctl(PR_GET_DUMPABLE) == 1;
	prctl(PR_GET_PDEATHSIG, &death_signal);
	if (uid == geteuid())
		return 0; /* also where setfsuid(2) is refused */
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
	if (was_dumpable)
		prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, death_signal);
	errno = saved;
}
