/* SPDX-License-Identifier: MIT */
#include "base/tracefs.h"

#include <linux/magic.h>
#include <stddef.h>
#include <sys/statfs.h>
#include <unistd.h>

#define MOUNT "/sys/kernel/tracing"

const char *tracefs_events(void)
{
	static const char *const folders[] = { MOUNT "/events",
					       "/sys/kernel/debug/tracing/events" };

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (!access(folders[i], R_OK))
			return folders[i];
	return NULL;
}

const char *tracefs_missing(void)
{
	struct statfs found;

	if (statfs(MOUNT, &found))
		return "this kernel shows no " MOUNT;
	if (found.f_type != TRACEFS_MAGIC)
		return "tracefs is not mounted: as root, mount -t tracefs none " MOUNT;
	return MOUNT " can't be read by this user";
}
