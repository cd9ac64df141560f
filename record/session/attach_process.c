/* SPDX-License-Identifier: MIT */
/* Enter a running process: connect to the agent that it has, or load one. */
#include "record/session/attach_process.h"
#include "record/session/session.h"
#include "target/process/agentpath.h"
#include "target/process/inject.h"
#include "target/process/mount_ns.h"
#include "target/process/reach.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

/* on a busy machine the agent's new thread may have to wait for a CPU */
#define CONNECT_WAIT_MS 10000
#define CONNECT_FIRST_MS 500 /* until the agent is loaded again; doubled each time */
#define CONNECT_STEP_MS 5

static int has_ended(pid_t pid)
{
	struct target now;

	return target_read(&now, pid) || target_has_ended(&now);
}

/* Wait until an agent answers, waiting cannot help, or wait_ms are over. */
static int connect_within(const struct target *target, struct link *link, int wait_ms)
{
	int err = reach_agent(target, link);

	for (int waited = 0; err && waited < wait_ms; waited += CONNECT_STEP_MS) {
		if (has_ended(target->pid))
			return -WM_E_GONE;
		poll(NULL, 0, CONNECT_STEP_MS);
		err = reach_agent(target, link);
	}
	return err && has_ended(target->pid) ? -WM_E_GONE : err;
}

/*
 * Load the agent and connect to it. An agent that leaves keeps its socket open for a moment after
 * its name is gone. So injector_agent() may take it for one that listens, and load none: ask again
 * if none answers. But an agent that has published its folder answers soon, perhaps to another tool
 * first. Do not ask that one to listen elsewhere: it would move back and forth between the two
 * tools.
 */
static int load_and_connect(const struct target *target, struct link *link, const char *agent,
			    const char *dir, struct detail detail)
{
	char published[SOCKETDIR_BYTES];
	int waited_ms = 0;

	for (int wait_ms = CONNECT_FIRST_MS; waited_ms < CONNECT_WAIT_MS; wait_ms *= 2) {
		int err = 0;

		if (!waited_ms || reach_published(target->pid, published))
			err = injector_agent(target->pid, agent, dir, detail.text, detail.bytes);
		if (err) {
			socketdir_leave(dir);
			return err;
		}
		err = connect_within(target, link, wait_ms);
		if (!err) /* it may listen in another tool's folder: then this one is empty */
			socketdir_leave(dir);
		if (err != -ENOENT)
			return err;
		waited_ms += wait_ms;
	}
	return -WM_E_AGENT_SILENT;
}

#define AGENT_FILE "libwaymark-agent.so"

/* A container seldom has the agent's file: copy it to the folder of its sockets. */
static int bring_agent(const struct target *target, char agent[PATH_MAX], const char *dir)
{
	int folder, err;

	if (mount_ns_shares(target->pid, agent))
		return 0;
	folder = mount_ns_open(target->pid, dir, target->uid, 1);
	if (folder < 0)
		return folder;
	err = mount_ns_bring(folder, agent, AGENT_FILE);
	close(folder);
	if (!err)
		snprintf(agent, PATH_MAX, "%s/%s", dir, AGENT_FILE);
	return err;
}

/* Words for a folder that is not to be had. A read-only /tmp and the like have their own remedy. */
static int folder_error(int err, const char *dir, const char *whose, struct detail detail)
{
	if (err != -EROFS && err != -EACCES && err != -ENOENT)
		return detail_set(detail, err, "%s%s", dir, whose);
	return detail_set(detail, -WM_E_SOCKET_DIR, "%s%s: %s", dir, whose, strerror(-err));
}

int attach_place(const struct target *target, const char *named, char agent[PATH_MAX],
		 char dir[SOCKETDIR_BYTES], struct detail detail)
{
	struct mount_ns apart;
	char whose[64] = "";
	int err = agentpath_find_as(agent, named), error;

	if (err)
		return detail_set(detail, err, "%s", agent);
	mount_ns_of(&apart, target->pid);
	if (mount_ns_is_foreign(&apart)) {
		socket_place_apart(target->uid, dir);
		err = bring_agent(target, agent, dir);
		snprintf(whose, sizeof(whose), ", as process %d sees it", (int)target->pid);
	} else {
		err = socket_place_any(target->pid, target->uid, dir);
	}
	/* a program that no agent can enter has no use for a folder */
	error = err ? target_check(target, detail) : 0;
	return !err || error ? error : folder_error(err, dir, whose, detail);
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
	if (target_has_ended(&target))
		return session_fail(session, -WM_E_GONE, "pid %d", (int)pid);
	if (target.uid != geteuid() && geteuid() != 0) {
		err = target_denied(&target, detail);
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	}
	/* it may have an agent already, even where none can be loaded */
	err = reach_agent(&target, link);
	if (err != -ENOENT)
		return err ? session_fail(session, err, "pid %d", (int)pid) : 0;
	if (!mount_ns_knows_us(pid))
		return session_fail(
			session, -WM_E_PEER_UID,
			"process %d (%s) has a user namespace in which user %u is nobody; "
			"it runs as user %u",
			(int)pid, target.comm, geteuid(), target.uid);
	err = attach_place(&target, session->options.agent_path, agent, dir, detail);
	if (!err)
		err = load_and_connect(&target, link, agent, dir, detail);
	if (err)
		return session_fail(session, err, "pid %d%s%s", (int)pid, words[0] ? ": " : "",
				    words);
	return 0;
}

int session_listen(struct wm_session *session, pid_t pid, uid_t uid, struct listener **listener)
{
	char dir[SOCKETDIR_BYTES], words[256];
	struct mount_ns apart;
	int folder, err;

	mount_ns_of(&apart, pid);
	for (*listener = session->listeners; *listener; *listener = (*listener)->next)
		if ((*listener)->uid == uid && mount_ns_is_same(&(*listener)->apart, &apart))
			return 0;
	if (mount_ns_is_foreign(&apart)) {
		socket_place_apart(uid, dir);
		folder = mount_ns_open(pid, dir, uid, 1);
	} else {
		err = socket_place_any(uid == geteuid() ? getpid() : pid, uid, dir);
		folder = err ? err : socket_place_open(dir, uid);
	}
	err = folder < 0 ? folder : 0;
	if (!err)
		err = tool_socket_listener_new(listener, dir, folder, uid);
	if (err) {
		err = folder_error(err, dir, "", (struct detail){ words, sizeof(words) });
		return session_fail(session, err, "%s", words);
	}
	(*listener)->apart = apart;
	(*listener)->next = session->listeners;
	session->listeners = *listener;
	return 0;
}
