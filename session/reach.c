/* SPDX-License-Identifier: MIT */
#include "session/reach.h"

#include "session/place.h"

#include <errno.h>
#include <stdio.h>

int reach_agent(const struct target *target, struct link *link)
{
	char dir[SOCKETDIR_BYTES], path[SOCKETDIR_BYTES + 32];
	int found = -ENOENT;

	for (unsigned int which = 0; !place_candidate(target->pid, target->uid, which, dir);
	     which++) {
		int err;

		/* it names its socket by the pid that it sees itself */
		snprintf(path, sizeof(path), "%s/%d.agent", dir, (int)target->inner_pid);
		err = link_connect(link, path);
		if (!err && link->pid == target->pid)
			return 0;
		if (!err) {
			link_release(link); /* left by another process that had this pid */
			err = -ENOENT;
		}
		if (err != -ENOENT && err != -ECONNREFUSED)
			found = err;
	}
	return found;
}
