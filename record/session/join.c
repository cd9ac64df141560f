/* SPDX-License-Identifier: MIT */
/* How processes enter a session: by attach or by launch. */
#include "base/socketdir.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/trail/soft/soft_leave.h"
#include "target/claim/limits.h"
#include "target/process/agentpath.h"
#include "target/process/call.h"
#include "target/process/inject.h"
#include "target/process/launch.h"
#include "target/process/mount_ns.h"
#include "target/process/program.h"
#include "target/process/reach.h"
#include "target/process/socket_owner.h"
#include "target/process/target.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define HELLO_WAIT_MS 5000
#define ATTACHES_MAX 5
#define ATTACHES_BUSY_MAX 60 /* where others only ask (`waymark list`), and go in a moment */
#define AGENT_DESCRIPTORS 5  /* how many descriptors an agent needs to serve us */
/* on a busy machine the agent's new thread may have to wait for a CPU */
#define CONNECT_WAIT_MS 10000
#define CONNECT_FIRST_MS 500 /* until the agent is loaded again; doubled each time */
#define CONNECT_STEP_MS 5
#define AGENT_FILE "libwaymark-agent.so"

/* ---- a running process ---- */

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

int session_attach_place(const struct target *target, const char *named, char agent[PATH_MAX],
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

/* Connect to a running process's agent; load one if necessary. *uid gets the process's user. */
static int agent_reach(struct wm_session *session, pid_t pid, struct link *link, uid_t *uid)
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
	err = session_attach_place(&target, session->options.agent_path, agent, dir, detail);
	if (!err)
		err = load_and_connect(&target, link, agent, dir, detail);
	if (err)
		return session_fail(session, err, "pid %d%s%s", (int)pid, words[0] ? ": " : "",
				    words);
	return 0;
}

/* The socket where processes of a user can connect; made at the first call. */
static int session_listen(struct wm_session *session, pid_t pid, uid_t uid,
			  struct listener **listener)
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

/* ---- how it enters ---- */

/* Fail with the buffer size that was asked for, and the limit of the process that forbids it. */
static int tell_limit(struct wm_session *session, pid_t pid)
{
	static const struct {
		const char *named, *name;
	} limits[] = { { "Max file size", "RLIMIT_FSIZE" }, { "Max address space", "RLIMIT_AS" } };
	unsigned long long asked = session->options.buffer_bytes;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		unsigned long long limit = target_limit(pid, limits[i].named);

		if (limit > asked * 2)
			continue;
		return session_fail(session, -WM_E_MEMORY_LIMIT,
				    "%llu bytes asked, %s of pid %d is %llu", asked, limits[i].name,
				    (int)pid, limit);
	}
	return session_fail(session, -WM_E_MEMORY_LIMIT, "%llu bytes asked, for pid %d", asked,
			    (int)pid);
}

/*
 * Whether the process has too few descriptors: its agent can't open a socket, and does not answer.
 */
static int is_short(pid_t pid, int err)
{
	return (err == -WM_E_AGENT_SILENT && target_lacks_descriptors(pid, 0)) ||
	       (err == -EMFILE && target_lacks_descriptors(pid, AGENT_DESCRIPTORS));
}

/* Wait until the process has opened its store. Returns 0 or an error, with the detail. */
static int wait_opened(struct wm_session *session, struct process *process)
{
	int err = session_wait(session, process, HELLO_WAIT_MS);

	/* the step that took the HELLO has sent the request for the store */
	if (!err)
		err = session_wait(session, process, ANSWER_WAIT_MS);
	if (!err && process->state != PROCESS_OPENED)
		err = -WM_E_PROTOCOL;
	if (err == -WM_E_MEMORY_LIMIT)
		return tell_limit(session, process->pid);
	if (is_short(process->pid, err))
		err = -WM_E_NO_DESCRIPTORS;
	return err ? session_fail(session, err, "pid %d", (int)process->pid) : 0;
}

static int enter(struct wm_session *session, pid_t pid)
{
	int err = 0;

	FOR_SOURCES(source, enter)
		err = err ? err : source->enter(session, pid);
	return err;
}

static void part(struct wm_session *session)
{
	FOR_SOURCES(source, part)
		source->part(session);
}

/* 1: no source can without an agent. */
static int attach_alone(struct wm_session *session, pid_t pid, int error)
{
	FOR_SOURCES(source, attach) {
		int got = source->attach(session, pid, error);

		if (got <= 0)
			return got;
	}
	return 1;
}

static int attach_once(struct wm_session *session, pid_t pid)
{
	struct listener *listener = NULL;
	struct process *process;
	struct link link;
	uid_t uid;
	int err = agent_reach(session, pid, &link, &uid);

	if (err)
		return err;
	if (session->options.follow != WM_FOLLOW_NONE) {
		err = session_listen(session, pid, uid, &listener);
		if (err) {
			link_release(&link);
			return err;
		}
	}
	err = process_new(&process, session, &link, pid);
	if (err)
		return session_fail(session, err, "pid %d", (int)pid);
	process->invited = 1;
	process->listener = listener;
	/* first, as in wm_session_start() */
	err = enter(session, pid);
	if (!err)
		err = wait_opened(session, process);
	if (err) {
		part(session);
		process_hang_up(process, -WM_E_GONE);
		process->invited = 0; /* let session_step() forget it */
	}
	return err;
}

/* Whether the administrator's limits allow the session's buffer. */
static int check_limits(struct wm_session *session)
{
	char words[256] = "";
	int err = limits_check_buffer(session->options.buffer_bytes,
				      (struct detail){ words, sizeof(words) });

	return err ? session_fail(session, err, "%s", words) : 0;
}

static int may_pass(int err, int tried)
{
	if (err == -WM_E_GONE)
		return tried < ATTACHES_MAX;
	return (err == -EAGAIN || err == -WM_E_SESSIONS) && tried < ATTACHES_BUSY_MAX;
}

/*
 * Attach to a process. An agent whose last session has just ended may close the new connection
 * while it leaves, though its process lives; so does an agent whose program is executing another.
 * One that many others ask has no place just now. Then retry.
 */
int wm_session_attach(struct wm_session *session, pid_t pid)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct target target;
	char words[256] = "";
	int err = pid > 0 ? session_call_refused(session) : -EINVAL, alone;

	if (!err)
		err = check_limits(session);
	if (err)
		return err;
	if (pid == getpid())
		return session_fail(session, -EINVAL, "pid %d is this very process", (int)pid);
	if (process_find(session, pid))
		return session_fail(session, -EEXIST, "pid %d is in this session already",
				    (int)pid);
	alone = attach_alone(session, pid, 0);
	if (alone <= 0)
		return alone;
	/* an engine runs copies of the code that an agent would change */
	err = soft_leave_check(pid, (struct detail){ words, sizeof(words) });
	if (err)
		return session_fail(session, err, "pid %d: %s", (int)pid, words);
	err = attach_once(session, pid);
	for (int tried = 0; may_pass(err, tried); tried++) {
		if (target_read(&target, pid) || target_has_ended(&target))
			break;
		session_step(session, 5);
		err = attach_once(session, pid);
	}
	alone = err ? attach_alone(session, pid, err) : 1;
	return alone > 0 ? err : alone;
}

/*
 * Get the agent's path for LD_PRELOAD, which is split at spaces and colons. If the path contains
 * one, use a symbolic link beside our socket.
 */
static int agent_name(struct wm_session *session, const struct listener *listener,
		      char agent[PATH_MAX])
{
	int err = agentpath_find_as(agent, session->options.agent_path);

	if (err)
		return session_fail(session, err, "%s", agent);
	if (!strpbrk(agent, " :"))
		return 0;
	if (!session->agent_link[0]) {
		snprintf(session->agent_link, sizeof(session->agent_link), "%.*s.so",
			 (int)sizeof(session->agent_link) - 4, listener->path);
		unlink(session->agent_link);
		if (symlink(agent, session->agent_link) < 0) {
			err = -errno;
			session_fail(session, err, "%s", session->agent_link);
			session->agent_link[0] = 0;
			return err;
		}
	}
	strcpy(agent, session->agent_link);
	return 0;
}

/* Find the process that a launched program reported, even if only to say why it has no agent. */
static struct process *reported(const struct wm_session *session, pid_t pid)
{
	for (struct process *p = session->processes; p; p = p->next)
		if (p->pid == pid && (p->state < PROCESS_HUNG_UP || (p->error && !p->exe)))
			return p;
	return NULL;
}

/* Wait for our child to report; 0 or a negative error. */
static int wait_launched(struct wm_session *session, pid_t pid, const char *path)
{
	uint64_t until = ticks_monotonic_ns() + HELLO_WAIT_MS * UINT64_C(1000000);
	struct process *process = NULL;
	int has_ended = 0;

	while (!process && !has_ended && ticks_monotonic_ns() < until) {
		siginfo_t ended = { 0 };

		/* in this order: once it has ended, all that it sent has arrived */
		has_ended = !waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT) &&
			    ended.si_pid;
		session_step(session, has_ended ? 0 : 5);
		process = reported(session, pid);
	}
	if (process && process->state >= PROCESS_HUNG_UP)
		return session_fail(session, process->error, "%s", path);
	if (process)
		return wait_opened(session, process);
	if (has_ended)
		return session_fail(session, -WM_E_GONE, "%s ended before its agent reported",
				    path);
	return session_fail(session, -WM_E_AGENT_SILENT, "%s", path);
}

static int start(struct wm_session *session, pid_t *pid, const char *path, char *const argv[],
		 struct launch_options *options)
{
	int err;

	FOR_SOURCES(source, start) {
		*pid = source->start(session, path, argv, options);
		if (*pid)
			return *pid < 0 ? *pid : 0;
	}
	err = launch_start(pid, path, argv, options);
	return err ? session_fail(session, err, "%s", path) : 0;
}

int wm_session_launch(struct wm_session *session, char *const argv[])
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct launch_options options;
	struct listener *listener;
	struct program program;
	char agent[PATH_MAX];
	pid_t pid, *more;
	int err = argv && argv[0] ? session_call_refused(session) : -EINVAL;

	if (!err)
		err = check_limits(session);
	if (err)
		return err;
	err = program_find(&program, argv[0]);
	FOR_SOURCES(source, launch) {
		pid = source->launch(session, program.path, argv, err);
		if (pid)
			return pid;
	}
	/* it is linked with libwaymark-agent.a, which connects by itself */
	if (err == -WM_E_STATIC_PROGRAM && program.has_agent)
		err = 0;
	if (err)
		return session_fail(session, err, "%s",
				    program.binary[0] ? program.binary : argv[0]);
	err = session_listen(session, getpid(), geteuid(), &listener);
	if (!err)
		err = agent_name(session, listener, agent);
	if (err)
		return err;
	agentpath_for_glibc(agent);
	more = realloc(session->launched, (session->launched_count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	session->launched = more;
	options = (struct launch_options){ .agent = agent,
					   .tool = listener->path,
					   .prearm = session->options.prearm };
	err = start(session, &pid, program.path, argv, &options);
	if (err)
		return err;
	session->launched[session->launched_count++] = pid;
	err = enter(session, pid);
	if (!err)
		err = wait_launched(session, pid, program.path);
	if (!err)
		return pid;
	part(session);
	/* the launch fails, so leave no program behind; it has hardly run, if at all */
	session->launched_count--;
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return err;
}
