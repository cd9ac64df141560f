/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "agent/control/session.h"

#include "agent/control/detours.h"
#include "agent/control/hello.h"
#include "agent/control/inherit.h"
#include "agent/control/lock.h"
#include "agent/control/message.h"
#include "agent/control/owed.h"
#include "agent/control/patching.h"
#include "agent/control/quiet.h"
#include "agent/control/tell.h"
#include "agent/control/thread.h"
#include "agent/control/wait.h"
#include "agent/marker/hook.h"
#include "agent/marker/marker.h"
#include "agent/store/store.h"
#include "base/kernel.h"
#include "base/socketdir.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define LOCK_MS 2000
#define QUIET_MS 1000
#define OPEN_MS 10000  /* the socket's slot, and this thread, aren't held by one who only looks */
#define COMMIT_MS 8000 /* longer than a commit can take: who waits for it doesn't leave meanwhile */
#define LATE_PATIENCE_NS 100000000u
#define QUIET_AGAIN_MS 10 /* four times a second, with the agent's lock held */

/*
 * FREE -> GREETED    a connection was made; so far it can only ask
 * GREETED -> OPEN    OPEN was served: it has a store
 * GREETED -> FREE    the connection ended, or somebody who came to us has not opened for OPEN_MS
 * OPEN -> CLOSING    the connection ended; its markers are disarmed, but a thread may still write
 * CLOSING -> FREE    no thread does
 * CLOSING -> LOST    some thread kept a page for good: the lane is never used again
 */
enum session_state {
	SESSION_FREE = 0,
	SESSION_GREETED,
	SESSION_OPEN,
	SESSION_CLOSING,
	SESSION_LOST,
};

struct session {
	int fd;
	enum session_state state;
	uint64_t open_until_ns;	       /* if GREETED; 0: may take its time */
	char tool[SESSION_PATH_BYTES]; /* where forked children find it; "" */
	char came[SESSION_PATH_BYTES]; /* the path that we connected to; "" */
	uint64_t set;		       /* what it has placed */
	int owes_go;		       /* the program waits for its GO */
	int follows_modules;	       /* it has committed: it is told of all that come */
	uint32_t uncommitted;	       /* places that were prepared since its last COMMIT */
};

static struct session sessions[SESSIONS_MAX];
static const struct text *text;

static unsigned int lane_of(const struct session *session)
{
	return (unsigned int)(session - sessions);
}

void session_init(const struct text *means)
{
	text = means;
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		sessions[i].fd = -1;
		if (sessions[i].state != SESSION_LOST)
			sessions[i].state = SESSION_FREE;
		sessions[i].tool[0] = 0;
	}
	registry_listen(&tell_listener);
}

void session_forked(void)
{
	memset(sessions, 0, sizeof sessions);
	tell_forked();
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		sessions[i].fd = -1;
}

unsigned int session_tool_paths(char paths[SESSIONS_MAX][SESSION_PATH_BYTES])
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_OPEN && sessions[i].tool[0])
			memcpy(paths[count++], sessions[i].tool, SESSION_PATH_BYTES);
	}
	return count;
}

uint32_t session_followed(void)
{
	uint32_t lanes = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_OPEN && sessions[i].tool[0])
			lanes |= 1u << i;
	}
	return lanes;
}

unsigned int session_count(void)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		count += sessions[i].state != SESSION_FREE && sessions[i].state != SESSION_LOST;
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

int session_add(int fd, unsigned int flags, const char *tool)
{
	struct session *session = NULL;
	int error = socketdir_peer(fd, NULL);

	for (unsigned int i = 0; !session && i < SESSIONS_MAX; i++) {
		if (sessions[i].state == SESSION_FREE && store_is_free(i))
			session = &sessions[i];
	}
	if (!error)
		error = hello_send(fd, flags, inherit_find(tool));
	if (!error && !session) {
		struct control_done done = { .error = -WM_E_SESSIONS };

		message_send(fd, CONTROL_DONE, 0, &done, sizeof done, NULL, 0, -1, NULL);
		error = -WM_E_SESSIONS;
	}
	if (error) {
		kernel_close(fd);
		return error;
	}
	tell_lane_new(lane_of(session));
	owed_clear(lane_of(session));
	*session = (struct session){ .fd = fd,
				     .state = SESSION_GREETED,
				     .owes_go = (flags & SESSION_LAUNCHED) != 0 };
	if (tool && strlen(tool) < sizeof session->came)
		strcpy(session->came, tool);
	if (flags & SESSION_ACCEPTED)
		session->open_until_ns = lock_now_ns() + (uint64_t)OPEN_MS * 1000000;
	return 0;
}

int session_rescan(void)
{
	int error = patching_lock(text, 0);

	if (error)
		return error;
	tell_renew();
	error = registry_scan(text);
	if (!error)
		error = registry_follow(text);
	tell_flush();
	lock_release(&agent_lock);
	return error;
}

/* Disarm all that the session has; its store is quiet then. */
static int make_quiet(struct session *session, struct change *change, unsigned int timeout_ms)
{
	int error = patching_lock(text, 0), quiet;

	if (error)
		return error;
	session->follows_modules = 0; /* until it commits again */
	owed_clear(lane_of(session));
	session->set = 0;
	error = registry_rule(text, lane_of(session), NULL, 0, 0, change);
	detours_let_go(lane_of(session), text, change);
	quiet = session->state == SESSION_OPEN || session->state == SESSION_CLOSING
			? quiet_wait(lane_of(session), text, timeout_ms)
			: 0;
	tell_flush();
	lock_release(&agent_lock);
	return error ? error : quiet;
}

/* CLOSING -> FREE or LOST, or later. */
static void finish_closing(struct session *session, unsigned int timeout_ms)
{
	struct change change = { .lane = -1 };
	int error = make_quiet(session, &change, timeout_ms);

	if (error)
		return; /* session_tick() tries again */
	if (lock_take(&agent_lock, LOCK_MS))
		return;
	error = store_close(lane_of(session));
	session->state = error ? SESSION_LOST : SESSION_FREE;
	lock_release(&agent_lock);
}

static void begin_closing(struct session *session)
{
	tell_flush(); /* nothing may wait for a descriptor that is another's soon */
	if (session->fd >= 0)
		kernel_close(session->fd);
	session->fd = -1;
	session->tool[0] = 0;
	session->follows_modules = 0;
	owed_clear(lane_of(session)); /* its loading threads wait no longer */
	/* nor does the program; where there is no other session, once all is disarmed (clean_up) */
	if (session->owes_go && session_count() > 1)
		control_go();
	session->owes_go = 0;
	if (session->state == SESSION_GREETED) {
		session->state = SESSION_FREE; /* no rules, no store: there is nobody to wait for */
		return;
	}
	session->state = SESSION_CLOSING;
	finish_closing(session, QUIET_MS);
}

static int serve_open(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_open request;
	struct store_options options;
	struct control_store store;
	struct stat file;
	size_t path_bytes;
	int error, fd = -1;

	if (session->state == SESSION_OPEN)
		return -EALREADY;
	if (message->bytes < sizeof request)
		return -WM_E_PROTOCOL;
	memcpy(&request, body, sizeof request);
	path_bytes = message->bytes - sizeof request;
	if (path_bytes > SESSION_PATH_BYTES || (path_bytes && body[message->bytes - 1]))
		return -WM_E_PROTOCOL;
	options = (struct store_options){ .buffer_bytes = request.buffer_bytes,
					  .block_ns = request.block_ns,
					  .policy = request.policy,
					  .clock = request.clock };
	error = lock_take(&agent_lock, LOCK_MS);
	if (error)
		return error;
	error = store_open(lane_of(session), &options, &fd);
	if (!error) {
		registry_lane_open(lane_of(session));
		detour_lane_open(lane_of(session));
		session->state = SESSION_OPEN;
		if (path_bytes)
			memcpy(session->tool, body + sizeof request, path_bytes);
		store.bytes = kernel_fstat(fd, &file) ? 0 : (uint64_t)file.st_size;
		error = message_send(session->fd, CONTROL_STORE, message->serial, &store,
				     sizeof store, NULL, 0, fd, NULL);
		kernel_close(fd);
		tell_modules_to(lane_of(session));
	}
	lock_release(&agent_lock);
	return error;
}

static int serve_rules(struct session *session, const struct wm_message *message, const char *body,
		       struct change *change)
{
	struct control_rules rules;
	int error;

	if (message->bytes < sizeof rules)
		return -WM_E_PROTOCOL;
	memcpy(&rules, body, sizeof rules);
	body += sizeof rules;
	if (message_check_strings(body, message->bytes - sizeof rules, rules.count))
		return -WM_E_PROTOCOL;
	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = patching_lock(text, rules.strict != 0);
	if (error)
		return error;
	/* without the hook nobody has told us of modules that came since */
	if (!hook_is_placed() && !registry_scan(text))
		registry_follow(text);
	error = registry_rule(text, lane_of(session), body, rules.count,
			      message->type == CONTROL_ARM, change);
	lock_release(&agent_lock);
	return error;
}

static int serve_detours(struct session *session, const struct wm_message *message,
			 const char *body, struct change *change)
{
	int error;

	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = patching_lock(text, 0);
	if (error)
		return error;
	if (!hook_is_placed() && !registry_scan(text))
		registry_follow(text);
	if (message->type == CONTROL_COMMIT) {
		wait_renew(COMMIT_MS);
		if (session->uncommitted && owed_waits(lane_of(session)))
			wait_load_renew(COMMIT_MS);
		session->uncommitted = 0;
	}
	if (message->type == CONTROL_PLACE) {
		error = detours_place(lane_of(session), text, body, message->bytes, change);
		session->uncommitted += change->markers;
	} else {
		error = detours_commit(lane_of(session), text, change);
	}
	if (message->type == CONTROL_COMMIT) {
		struct control_commit commit = { 0 };

		if (message->bytes >= sizeof commit)
			memcpy(&commit, body, sizeof commit);
		session->set = commit.set;
		session->follows_modules = 1;
	}
	lock_release(&agent_lock);
	return error;
}

/* Returns a count of places, or an error. */
static int adopt(struct session *session, const struct control_adopt *adopt)
{
	int count = patching_lock(text, 0);

	if (count)
		return count;
	count = inherit_adopt(lane_of(session), session->came, adopt->set);
	if (count >= 0) {
		detours_adopted();
		session->set = adopt->as;
		session->follows_modules = 1;
	}
	lock_release(&agent_lock);
	return count;
}

static int serve_adopt(struct session *session, const struct wm_message *message, const char *body,
		       struct change *change)
{
	struct control_adopt request;
	int count;

	if (message->bytes < sizeof request)
		return -WM_E_PROTOCOL;
	if (session->state != SESSION_OPEN)
		return -EINVAL;
	memcpy(&request, body, sizeof request);
	count = adopt(session, &request);
	if (count < 0)
		return count;
	change->markers = change->sites = (uint32_t)count;
	return 0;
}

static int serve_seen(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_seen seen;

	if (message->bytes < sizeof seen)
		return -WM_E_PROTOCOL;
	memcpy(&seen, body, sizeof seen);
	owed_seen(lane_of(session), seen.base);
	return 0;
}

/* Returns 1: there is no answer. */
static int serve_wait(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_wait wait = { 0 };
	size_t bytes = message->bytes < sizeof wait ? message->bytes : sizeof wait;

	memcpy(&wait, body, bytes);
	if (!wait.base)
		wait_renew(wait.ms);
	else if (owed_got_on(lane_of(session), wait.base, wait.done))
		wait_load_renew(wait.ms < CONTROL_WAIT_MS ? wait.ms : CONTROL_WAIT_MS);
	return 1;
}

static int serve_list(struct session *session)
{
	int error = lock_take(&agent_lock, LOCK_MS);

	if (error)
		return error;
	if (!hook_is_placed() && !registry_scan(text))
		registry_follow(text);
	error = tell_list(lane_of(session));
	lock_release(&agent_lock);
	return error;
}

static int serve_request(struct session *session, const struct wm_message *message,
			 struct change *change)
{
	const char *body = (const char *)(message + 1);

	switch (message->type) {
	case CONTROL_OPEN:
		return serve_open(session, message, body);
	case CONTROL_ARM:
	case CONTROL_DISARM:
		return serve_rules(session, message, body, change);
	case CONTROL_PLACE:
	case CONTROL_COMMIT:
		return serve_detours(session, message, body, change);
	case CONTROL_ADOPT:
		return serve_adopt(session, message, body, change);
	case CONTROL_SEEN:
		return serve_seen(session, message, body);
	case CONTROL_LIST:
		return serve_list(session);
	case CONTROL_WAIT:
		return serve_wait(session, message, body);
	case CONTROL_GO:
		session->owes_go = 0;
		return 0; /* once the answer is sent: the program may end right then */
	case CONTROL_QUIET:
	case CONTROL_LEAVE:
		return make_quiet(session, change, QUIET_MS);
	default:
		return 1; /* unknown: ignored, without an answer */
	}
}

static int send_done(struct session *session, const struct wm_message *message, int error,
		     const struct change *change, uint64_t begin_ns)
{
	struct control_done done = {
		.error = error,
		.markers = change->markers,
		.sites = change->sites,
		.refused = change->refused,
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
	if (session->owes_go)
		wait_renew(CONTROL_WAIT_MS);
	begin_ns = lock_now_ns();
	tell_begin(lane_of(session), message->serial);
	error = serve_request(session, message, &change);
	if (tell_end())
		error = -EPIPE; /* the tool has not read what it was told */
	if (error == 1)
		return;
	if (send_done(session, message, error, &change, begin_ns) || error == -EPIPE ||
	    message->type == CONTROL_LEAVE)
		begin_closing(session);
	if (message->type == CONTROL_GO)
		control_go();
	registry_reap(0, 0); /* what can be freed now; the rest at a later tick */
}

void session_poll_fds(struct pollfd fds[SESSIONS_MAX])
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++)
		fds[i] = (struct pollfd){ .fd = sessions[i].fd, .events = POLLIN };
}

void session_serve(const struct pollfd fds[SESSIONS_MAX])
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (fds[i].fd >= 0 && fds[i].fd == sessions[i].fd && fds[i].revents)
			serve_session(&sessions[i]);
	}
}

int session_fd(unsigned int lane)
{
	return sessions[lane].state == SESSION_GREETED || sessions[lane].state == SESSION_OPEN
		       ? sessions[lane].fd
		       : -1;
}

int session_follows_modules(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN && sessions[lane].follows_modules;
}

int session_any_owes(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (session_follows_modules(i) && owed_waits(i))
			return 1;
	}
	return 0;
}

static void tell_late(unsigned int lane, uint64_t base)
{
	struct control_late late = { .base = base };
	uint64_t patience_ns = LATE_PATIENCE_NS;

	/* one that takes nothing for so long is found deaf by and by */
	message_send(sessions[lane].fd, CONTROL_LATE, 0, &late, sizeof late, NULL, 0, -1,
		     &patience_ns);
}

void session_forgive_seen(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (session_follows_modules(i))
			owed_forgive(i, tell_late);
	}
}

void session_forgive_go(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].owes_go && session_fd(i) >= 0)
			tell_late(i, 0);
		sessions[i].owes_go = 0;
	}
}

const char *session_tool(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN && sessions[lane].tool[0] ? sessions[lane].tool
									      : NULL;
}

uint64_t session_set(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN ? sessions[lane].set : 0;
}

int session_is_open(unsigned int lane)
{
	return sessions[lane].state == SESSION_OPEN;
}

void session_tick(void)
{
	uint64_t now_ns = lock_now_ns();

	tell_renew();
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		int late = sessions[i].state == SESSION_GREETED && sessions[i].open_until_ns &&
			   now_ns >= sessions[i].open_until_ns;

		if (late || (tell_is_deaf(i) && session_fd(i) >= 0))
			begin_closing(&sessions[i]);
		else if (sessions[i].state == SESSION_CLOSING)
			finish_closing(&sessions[i], QUIET_AGAIN_MS);
	}
}

void session_drop_all(void)
{
	for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
		if (sessions[i].state != SESSION_FREE && sessions[i].state != SESSION_LOST)
			begin_closing(&sessions[i]);
		if (sessions[i].state == SESSION_CLOSING)
			sessions[i].state = SESSION_LOST;
	}
}
