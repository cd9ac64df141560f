/* SPDX-License-Identifier: MIT */
#include "inside/control/agent_session.h"

#include "base/debug_trace.h"
#include "base/kernel.h"
#include "base/socketdir.h"
#include "inside/control/detours.h"
#include "inside/control/handler_objects.h"
#include "inside/control/message.h"
#include "inside/control/report.h"
#include "inside/control/session_table.h"
#include "inside/control/wait.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/marker/marker.h"
#include "inside/runtime/lock.h"
#include "inside/runtime/tasks.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"
#include "inside/watch/watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <waymark/error.h>

#define OPEN_MS 10000 /* the socket's slot, and this thread, aren't held by one who only looks */
#define LATE_PATIENCE_NS 100000000u
#define QUIET_AGAIN_MS 10 /* four times a second, with the agent's lock held */
#define WAIT_MS 4000	  /* for the lock, and for a thread that takes a module away */

int session_patching_lock(const struct text *text, int strict)
{
	uint64_t begin_ns = lock_now_ns();

	for (;;) {
		uint64_t waited_ms = (lock_now_ns() - begin_ns) / 1000000;
		unsigned int left_ms = waited_ms < WAIT_MS ? (unsigned int)(WAIT_MS - waited_ms)
							   : 0;
		int error = lock_take(&agent_lock, strict ? 0 : left_ms);

		if (error)
			return error;
		if (!registry_is_frozen(text))
			return 0;
		lock_release(&agent_lock);
		if (strict || !left_ms)
			return -EBUSY;
		kernel_sleep_ns(1000000);
	}
}

int session_quiet(struct session *session, struct change *change, unsigned int timeout_ms)
{
	int error = session_patching_lock(session_text, 0), quiet;

	if (error)
		return error;
	session->follows_ns = 0; /* until it commits again */
	session->unseen = 0;
	session->set = 0;
	/* report what another tool did since the last look while the tool is still connected */
	if (session->fd >= 0 && !registry_is_frozen(session_text))
		foreign_bytes_look(session_text);
	error = registry_rule(session_text, session_lane(session), NULL, 0, 0, change);
	watch_release(session_lane(session), session->fd < 0);
	detours_let_go(session_lane(session), session_text, change);
	/* Only now: a fork that gets no lock while we disarm counts its child as unreached. */
	session->is_quiet = 1;
	quiet = session->state == SESSION_OPEN || session->state == SESSION_CLOSING
			? store_quiet(session_lane(session), timeout_ms)
			: 0;
	report_flush();
	lock_release(&agent_lock);
	return error ? error : quiet;
}

static int is_ready;	  /* session_init() was called in this process */
static int is_incomplete; /* session_forked() */

void session_init(const struct text *means)
{
	session_text = means;
	is_ready = 1;
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		sessions[i].fd = -1;
		if (sessions[i].state == SESSION_INHERITED)
			continue;
		if (sessions[i].state != SESSION_LEFT)
			sessions[i].state = SESSION_FREE;
		sessions[i].tool[0] = 0;
	}
	registry_listen(&report_listener);
	report_watches();
	watch_begin();
}

void session_forked(uint32_t lanes, int incomplete)
{
	is_incomplete = incomplete;
	report_forked();
	is_ready = 0;
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		struct session *session = &sessions[i];

		if (lanes & 1u << i) {
			session->state = SESSION_INHERITED;
			session->awaits_go = 0;
			session->follows_ns = 0;
		} else {
			*session = (struct session){ 0 };
		}
		session->fd = -1;
		registry_replace(i, 0);
	}
}

void session_unreached(const char *tool, int error)
{
	uint32_t lanes = session_inherited(tool);

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (lanes & 1u << i && (is_incomplete || !store_is_shared(i)))
			store_unreached(i, error);
	}
}

/* CLOSING -> FREE or LEFT, or later. */
static void finish_closing(struct session *session, unsigned int timeout_ms)
{
	struct change change = { .lane = -1 };
	int error = session_quiet(session, &change, timeout_ms);

	DEBUG_TRACE("agent/session", "lane %d: quiet: error %d", session_lane(session), error);
	if ((error && error != -ETIMEDOUT) || lock_take(&agent_lock, SESSION_LOCK_MS))
		return; /* session_tick() tries again */
	if (!error)
		error = store_close(session_lane(session));
	session->state = error ? SESSION_LEFT : SESSION_FREE;
	lock_release(&agent_lock);
	if (!error)
		objects_release(session_lane(session));
}

/*
 * LEFT -> FREE, where it can be. A thread that a signal's handler took out of a hit by a jump keeps
 * its lane from that until it hits again or ends.
 */
static void take_back(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].state != SESSION_LEFT || lock_take(&agent_lock, SESSION_LOCK_MS))
			continue;
		if (!store_quiet(i, QUIET_AGAIN_MS) && !store_close(i))
			sessions[i].state = SESSION_FREE;
		lock_release(&agent_lock);
		if (sessions[i].state == SESSION_FREE)
			objects_release(i);
	}
}

static void say_done(int fd, int error)
{
	struct control_done done = { .error = error };

	message_send(fd, CONTROL_DONE, 0, &done, sizeof done, NULL, 0, -1, NULL);
}

/* Field 22 of /proc/PID/stat. */
static uint64_t start_time(void)
{
	char text[TASKS_STAT_BYTES];
	const char *at = tasks_stat("/proc/self/stat", text);

	for (int field = 3; *at && field < 22; at++)
		field += *at == ' ';
	return strtoull(at, NULL, 10);
}

/* The path of the executable with its NUL; how long that is. `path` has room for 4096. */
static size_t exe_path(char *path)
{
	ssize_t bytes = kernel_readlink("/proc/thread-self/exe", path, 4095);
	size_t used = (size_t)(bytes > 0 ? bytes : 0);

	path[used++] = 0;
	return used;
}

int session_refuse(int fd, int error)
{
	struct control_unrecorded unrecorded = { .error = error };
	char path[4096];
	size_t bytes = exe_path(path);

	DEBUG_TRACE("agent/hello", "%s is not recorded: error %d", (long)path, error);
	return message_send(fd, CONTROL_UNRECORDED, 0, &unrecorded, sizeof unrecorded, path, bytes,
			    -1, NULL);
}

/* Send HELLO; `inherited`: what the tool has placed in our parent, or NULL. 0 or an error. */
static int hello_send(int fd, unsigned int flags, const struct control_inherited *inherited)
{
	struct control_hello hello = {
		.pid = (uint32_t)kernel_getpid(),
		.ppid = (uint32_t)kernel_getppid(),
		.agent_tid = (uint32_t)kernel_gettid(),
		.way = text_way(),
		.start_time = start_time(),
		.uid = (uint32_t)kernel_geteuid(),
		.forked = flags & SESSION_SHARES   ? HELLO_SHARES
			  : flags & SESSION_FORKED ? HELLO_FORKED
						   : 0,
		.launched = (flags & SESSION_LAUNCHED) != 0,
		.inherits = inherited != NULL,
	};
	char path[4096 + sizeof *inherited];
	size_t used = exe_path(path);

	if (inherited) {
		memcpy(path + used, inherited, sizeof *inherited);
		used += sizeof *inherited;
	}
	return message_send(fd, CONTROL_HELLO, 0, &hello, sizeof hello, path, used, -1, NULL);
}

/*
 * The protocol carries machine code. A process that may do more than the user who started it obeys
 * root alone, as it does with ptrace(2): a setuid, setgid or capability program, and one that is
 * not dumpable. One that was recorded before it was not dumpable stays so, with the children that
 * it forks.
 */
static int check_peer(int fd, unsigned int flags)
{
	struct ucred peer;
	int error = socketdir_peer(fd, &peer);

	if (error || peer.uid == 0)
		return error;
	if (!getauxval(AT_SECURE) &&
	    (flags & SESSION_FORKED || kernel_call(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0) == 1))
		return 0;
	say_done(fd, -WM_E_PEER_ROOT);
	return -WM_E_PEER_ROOT;
}

int session_add(int fd, unsigned int flags, const char *tool)
{
	struct session *session = NULL;
	int error = check_peer(fd, flags);

	take_back();
	for (unsigned int i = 0; !session && i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_FREE && !stores[i].head)
			session = &sessions[i];
	}
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (session_inherited(tool) & 1u << i && store_is_shared(i))
			flags |= SESSION_SHARES;
	}
	if (!error)
		error = hello_send(fd, flags, session_inherited_of(tool));
	if (!error && !session) {
		error = -WM_E_SESSIONS;
		say_done(fd, error);
	}
	if (error) {
		DEBUG_TRACE("agent/session", "connection refused: error %d", error);
		kernel_close(fd);
		return error;
	}
	DEBUG_TRACE("agent/session", "lane %d: hello sent, flags %x", session_lane(session), flags);
	report_lane_new(session_lane(session));
	*session = (struct session){ .fd = fd,
				     .state = SESSION_GREETED,
				     .awaits_go = (flags & SESSION_LAUNCHED) != 0 };
	if (tool && strlen(tool) < sizeof session->came)
		strcpy(session->came, tool);
	registry_replace(session_lane(session), session_inherited(tool));
	if (flags & SESSION_ACCEPTED)
		session->open_until_ns = lock_now_ns() + (uint64_t)OPEN_MS * 1000000;
	return 0;
}

int session_scan(void)
{
	int error = registry_scan(session_text);

	if (!error)
		error = registry_follow(session_text);
	report_scanned(error);
	return error;
}

int session_rescan(void)
{
	int error = session_patching_lock(session_text, 0);

	if (error)
		return error;
	report_renew();
	error = session_scan();
	report_flush();
	lock_release(&agent_lock);
	return error;
}

static void begin_closing(struct session *session)
{
	DEBUG_TRACE("agent/session", "lane %d: closes, state %d, %d sessions",
		    session_lane(session), session->state, session_count());
	report_flush(); /* nothing may wait for a descriptor that is another's soon */
	if (session->fd >= 0)
		kernel_close(session->fd);
	session->fd = -1;
	session->tool[0] = 0;
	session->follows_ns = 0; /* its loading threads wait no longer */
	/* nor does the program; where there is no other session, once all is disarmed (clean_up) */
	if (session->awaits_go && session_count() > 1)
		wait_go_over();
	session->awaits_go = 0;
	if (session->state == SESSION_GREETED) {
		session->state = SESSION_FREE; /* no rules and no store: no thread can be in it */
		return;
	}
	session->state = SESSION_CLOSING;
	finish_closing(session, SESSION_QUIET_MS);
}

/* All that the tool wants of this process is armed for its own session. */
static void leave_parent(const struct session *session)
{
	uint32_t lanes = session_inherited(session->came);

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (lanes & 1u << i)
			begin_closing(&sessions[i]);
	}
	registry_replace(session_lane(session), 0);
}

static int send_done(struct session *session, const struct wm_message *message, int error,
		     const struct change *change, uint64_t begin_ns)
{
	struct control_done done = {
		.error = error,
		.markers = change->markers,
		.sites = change->sites,
		.refused = change->refused,
		.unsafe = change->unsafe,
		.ticks = change->ticks,
		.batch_ns = change->done_ns ? change->done_ns - begin_ns : 0,
	};

	return message_send(session->fd, CONTROL_DONE, message->serial, &done, sizeof done, NULL, 0,
			    -1, NULL);
}

static void serve_session(struct session *session)
{
	static char buffer[CONTROL_BYTES_MAX] __attribute__((aligned(8)));
	struct change change = { .lane = -1 };
	struct wm_message *message;
	uint64_t begin_ns;
	int error = message_receive(session->fd, buffer, &message);

	if (error == -EAGAIN)
		return;
	if (error == -WM_E_PROTOCOL && message->magic == CONTROL_MAGIC)
		send_done(session, message, error, &change, 0);
	if (error) {
		begin_closing(session);
		return;
	}
	/* a tool that asks for something is at work on it */
	if (session->awaits_go)
		wait_renew(CONTROL_WAIT_MS);
	DEBUG_TRACE("agent/session", "lane %d: request %d, serial %d, %d bytes",
		    session_lane(session), message->type, message->serial, message->bytes);
	wait_serving(1);
	begin_ns = lock_now_ns();
	report_begin(session_lane(session), message->serial);
	error = request_serve(session, message, &change);
	wait_serving(0);
	if (report_end())
		error = -EPIPE; /* the tool has not read its messages */
	DEBUG_TRACE("agent/session",
		    "lane %d: serial %d done: error %d, %d markers, %d sites, %d refused",
		    session_lane(session), message->serial, error, change.markers, change.sites,
		    change.refused);
	if (error == 1)
		return;
	if (send_done(session, message, error, &change, begin_ns) || error == -EPIPE ||
	    message->type == CONTROL_LEAVE)
		begin_closing(session);
	if (message->type == CONTROL_GO) {
		wait_go_over();
		leave_parent(session);
	}
	planning_reap(0, 0); /* what can be freed now; the rest at a later tick */
}

void session_poll_fds(struct pollfd fds[SESSIONS_MAX])
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		fds[i] = (struct pollfd){ .fd = objects_are_awaited(i) ? -1 : sessions[i].fd,
					  .events = POLLIN };
}

void session_serve(const struct pollfd fds[SESSIONS_MAX])
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (fds[i].fd >= 0 && fds[i].fd == sessions[i].fd && fds[i].revents)
			serve_session(&sessions[i]);
	}
}

int session_any_pending(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (session_follows_modules(i) && sessions[i].watches && sessions[i].unseen &&
		    !sessions[i].is_behind)
			return 1;
	}
	return 0;
}

void session_forgive_seen(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		sessions[i].is_behind |= sessions[i].unseen != 0;
}

void session_forgive_go(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		uint64_t patience_ns = LATE_PATIENCE_NS;

		if (!sessions[i].awaits_go)
			continue;
		DEBUG_TRACE("agent/session", "lane %d: the program did not wait", i);
		/* one that takes nothing for so long is found deaf by and by */
		if (session_fd(i) >= 0)
			message_send(session_fd(i), CONTROL_LATE, 0, NULL, 0, NULL, 0, -1,
				     &patience_ns);
		sessions[i].awaits_go = 0;
	}
}

void session_tick(void)
{
	uint64_t now_ns = lock_now_ns();

	report_renew();
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		int late = sessions[i].state == SESSION_GREETED && sessions[i].open_until_ns &&
			   now_ns >= sessions[i].open_until_ns;

		if (late || (report_is_deaf(i) && session_fd(i) >= 0))
			begin_closing(&sessions[i]);
		else if (sessions[i].state == SESSION_CLOSING)
			finish_closing(&sessions[i], QUIET_AGAIN_MS);
		else if (sessions[i].state == SESSION_INHERITED && store_is_over(i))
			begin_closing(&sessions[i]);
	}
}

void session_refuse_all(int why)
{
	for (unsigned int i = 0; is_ready && i < SESSIONS_MAX; i++)
		if (sessions[i].state == SESSION_OPEN)
			session_refuse(sessions[i].fd, why);
}

void session_drop_all(void)
{
	for (unsigned int i = 0; is_ready && i < SESSIONS_MAX; i++) {
		if (sessions[i].state != SESSION_FREE && sessions[i].state != SESSION_LEFT)
			begin_closing(&sessions[i]);
		if (sessions[i].state == SESSION_CLOSING)
			sessions[i].state = SESSION_LEFT;
	}
}
