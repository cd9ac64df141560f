/* SPDX-License-Identifier: MIT */
#include "session/reach.h"

#include "session/apart.h"
#include "session/place.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* It names its socket by the pid that it sees itself. */
static int connect_in(const struct target *target, const struct apart *apart, const char *dir,
		      struct link *link)
{
	char name[32], path[SOCKETDIR_BYTES + 32];
	int folder, err;

	snprintf(name, sizeof(name), "%d.agent", (int)target->inner_pid);
	if (!apart_is(apart)) {
		snprintf(path, sizeof(path), "%s/%s", dir, name);
		return link_connect(link, path);
	}
	folder = apart_open(target->pid, dir, target->uid, 0);
	if (folder < 0)
		return -ENOENT;
	err = apart_way(folder, name, path, sizeof(path));
	if (!err)
		err = link_connect(link, path);
	close(folder);
	return err;
}

int reach_agent(const struct target *target, struct link *link)
{
	char dir[SOCKETDIR_BYTES];
	struct apart apart;
	int found = -ENOENT;

	apart_of(&apart, target->pid);

	for (unsigned int which = 0; !place_candidate(target->pid, target->uid, which, dir);
	     which++) {
		int err = connect_in(target, &apart, dir, link);

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
