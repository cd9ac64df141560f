/* SPDX-License-Identifier: MIT */
#include "inside/control/session_table.h"

#include "inside/detour/detour.h"
#include "inside/marker/marker.h"

#include <errno.h>
#include <string.h>

struct session sessions[SESSIONS_MAX];
const struct text *session_text;

unsigned int session_lane(const struct session *session)
{
	return (unsigned int)(session - sessions);
}

unsigned int session_count(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		count += sessions[i].state != SESSION_FREE && sessions[i].state != SESSION_LEFT;
	return count;
}

int session_any_opened(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_OPEN || sessions[i].state == SESSION_CLOSING)
			return 1;
	}
	return 0;
}

int session_fd(unsigned int lane)
{
	return sessions[lane].state == SESSION_GREETED || sessions[lane].state == SESSION_OPEN
		       ? sessions[lane].fd
		       : -1;
}

int session_follows_modules(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN && sessions[lane].follows_ns;
}

int session_is_open(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN;
}

uint64_t session_set(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN || sessions[lane].state == SESSION_INHERITED
		       ? sessions[lane].set
		       : 0;
}

int session_any_awaits_go(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].awaits_go && session_fd(i) >= 0)
			return 1;
	}
	return 0;
}

/* By the children that the process forks. */
static int is_followed(const struct session *session)
{
	return (session->state == SESSION_OPEN || session->state == SESSION_INHERITED) &&
	       session->tool[0] && !session->is_quiet;
}

/*
 * Whether a lane before it has the same tool: its parent's session, which the child's own replaces.
 */
static int is_twin(unsigned int lane)
{
	for (unsigned int i = 0; i < lane; i++) {
		if (is_followed(&sessions[i]) && !strcmp(sessions[i].tool, sessions[lane].tool))
			return 1;
	}
	return 0;
}

const char *session_tool(unsigned int lane)
{
	return is_followed(&sessions[lane]) ? sessions[lane].tool : NULL;
}

unsigned int session_tool_paths(char paths[SESSIONS_MAX][SESSION_PATH_BYTES])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (is_followed(&sessions[i]) && !is_twin(i))
			memcpy(paths[count++], sessions[i].tool, SESSION_PATH_BYTES);
	}
	return count;
}

uint32_t session_followed(void)
{
	uint32_t lanes = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (is_followed(&sessions[i]))
			lanes |= 1u << i;
	}
	return lanes;
}

uint32_t session_inherited(const char *tool)
{
	uint32_t lanes = 0;

	for (unsigned int i = 0; tool && i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_INHERITED && !strcmp(sessions[i].tool, tool))
			lanes |= 1u << i;
	}
	return lanes;
}

/* Whether the child has a session of its own with the tool of one that it inherits. */
static int has_own(unsigned int lane)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (session_fd(i) >= 0 && !strcmp(sessions[i].came, sessions[lane].tool))
			return 1;
	}
	return 0;
}

int session_is_replaced(unsigned int lane)
{
	return sessions[lane].state == SESSION_INHERITED && has_own(lane);
}

/* ---- what the child of a fork inherits ---- */

static struct inheritance {
	struct control_inherited about; /* its set is 0 where nothing is inherited, or no longer */
	char tool[SESSION_PATH_BYTES];
} inheritances[SESSIONS_MAX]; /* by the parent's lane */

void session_inherit(int whole)
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

const struct control_inherited *session_inherited_of(const char *tool)
{
	const struct inheritance *one = find(tool);

	return one ? &one->about : NULL;
}

int session_adopt(unsigned int lane, const char *tool, uint64_t set)
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
