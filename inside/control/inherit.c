/* SPDX-License-Identifier: MIT */
#include "inside/control/inherit.h"

#include "inside/control/session_table.h"
#include "inside/detour/detour.h"
#include "inside/marker/marker.h"

#include <errno.h>
#include <string.h>

static struct inheritance {
	struct control_inherited about; /* its set is 0 where nothing is inherited, or no longer */
	char tool[SESSION_PATH_BYTES];
} inheritances[SESSIONS_MAX]; /* by the parent's lane */

void inherit_forked(int whole)
{
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		struct inheritance *one = &inheritances[lane];
		const char *tool = session_tool(lane);

		one->about = (struct control_inherited){ 0 };
		if (!whole || !tool || session_is_replaced(lane))
			continue;
		one->about.set = session_set(lane);
		one->about.ids = registry_ids(lane);
		strcpy(one->tool, tool);
	}
}

static struct inheritance *find(const char *tool)
{
	for (unsigned int lane = 0; tool && lane < SESSIONS_MAX; lane++) {
		if (inheritances[lane].about.set && !strcmp(inheritances[lane].tool, tool))
			return &inheritances[lane];
	}
	return NULL;
}

const struct control_inherited *inherit_find(const char *tool)
{
	const struct inheritance *one = find(tool);

	return one ? &one->about : NULL;
}

int inherit_adopt(unsigned int lane, const char *tool, uint64_t set)
{
	struct inheritance *one = find(tool);
	unsigned int from = (unsigned int)(one - inheritances);

	if (!one || one->about.set != set)
		return -ENOENT;
	/*
	 * in its parent's own lane its ids are forgotten; and once ids were given the same ones
	 * have two meanings
	 */
	if (from == lane || registry_ids(lane))
		return -EBUSY;
	registry_ids_from(lane, one->about.ids);
	one->about.set = 0;
	return (int)detour_adopt(from, lane);
}
