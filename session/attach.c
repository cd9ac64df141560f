/* SPDX-License-Identifier: MIT */
/*
 * Entering a running process: use the agent that listens there, or load one.
 */
#include "session/agentpath.h"
#include "session/inject.h"
#include "session/place.h"
#include "session/reach.h"
#include "session/session.h"
#include "session/target.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
#include <waymark/error.h>

#define CONNECT_WAIT_MS 3000
#define CONNECT_STEP_MS 5

static int connect_patiently(const struct target *target, struct link *link)
{
	int err = reach_agent(target, link);

	for (int waited = 0; err && waited < CONNECT_WAIT_MS; waited += CONNECT_STEP_MS) {
		poll(NULL, 0, CONNECT_STEP_MS);
		err = reach_agent(target, link);
	}
	return err == -ENOENT ? -WM_E_AGENT_SILENT : err;
}

int session_enter(struct wm_session *session, pid_t pid, struct link *link, uid_t *uid)
{
	char agent[PATH_MAX], dir[SOCKETDIR_BYTES], words[512] = "";
	struct detail detail = { words, sizeof(words) };
	struct target target;
	int err = target_read(&target, pid);

	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	*uid = target.uid;
	if (target.state == 'Z' || target.state == 'X')
		return session_fail(session, -WM_E_GONE, "pid %d", (int)pid);
	if (target.uid != geteuid() && geteuid() != 0) {
		err = target_denied(&target, detail);
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	}
	/* an agent may be there already, also in a program that none could be loaded into */
	err = reach_agent(&target, link);
	if (err != -ENOENT)
		return err ? session_fail(session, err, "pid %d", (int)pid) : 0;
	err = agentpath_find(agent);
	if (err)
		return session_fail(session, err, "%s", agent);
	err = place_of(pid, target.uid, dir);
	if (err)
		return session_fail(session, err, "%s", dir);
	err = inject_agent(pid, agent, dir, words, sizeof(words));
	if (err)
		return session_fail(session, err, "pid %d%s%s", (int)pid, words[0] ? ": " : "",
				    words);
	err = connect_patiently(&target, link);
	return err ? session_fail(session, err, "pid %d", (int)pid) : 0;
}

int session_listen(struct wm_session *session, pid_t pid, uid_t uid, struct listener **listener)
{
	char dir[SOCKETDIR_BYTES];
	int err;

	for (*listener = session->listeners; *listener; *listener = (*listener)->next)
		if ((*listener)->uid == uid)
			return 0;
	err = uid == geteuid() ? place_own(dir) : place_of(pid, uid, dir);
	if (!err)
		err = listener_new(listener, dir, uid);
	if (err)
		return session_fail(session, err, "%s", dir);
	(*listener)->next = session->listeners;
	session->listeners = *listener;
	return 0;
}
