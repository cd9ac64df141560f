/* SPDX-License-Identifier: MIT */
/* What a session asks for. */
#include "inside/control/agent_session.h"

#include "abi/control.h"
#include "abi/predicate.h"
#include "base/kernel.h"
#include "base/predicate.h"
#include "base/socketdir.h"
#include "inside/control/detours.h"
#include "inside/control/handler_objects.h"
#include "inside/control/message.h"
#include "inside/control/report.h"
#include "inside/control/session_table.h"
#include "inside/control/wait.h"
#include "inside/detour/detour.h"
#include "inside/detour/hook.h"
#include "inside/detour/return.h"
#include "inside/marker/cost.h"
#include "inside/marker/cost_counters.h"
#include "inside/marker/handlers.h"
#include "inside/marker/marker.h"
#include "inside/marker/predicates.h"
#include "inside/marker/rule.h"
#include "inside/marker/sums.h"
#include "inside/runtime/lock.h"
#include "inside/store/clock.h"
#include "inside/store/event_store.h"
#include "inside/watch/take.h"
#include "inside/watch/watch.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define COMMIT_MS 8000 /* longer than a commit can take: who waits for it doesn't leave meanwhile */

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
					  .clock = request.clock,
					  .tool_pid = request.tool_pid };
	error = lock_take(&agent_lock, SESSION_LOCK_MS);
	if (error)
		return error;
	error = store_open(session_lane(session), &options, &fd);
	if (!error) {
		registry_lane_open(session_lane(session));
		detour_lane_open(session_lane(session));
		handlers_clear(session_lane(session)); /* of one that ended without the lock */
		clock_rate_set(request.tsc_hz);
		session->state = SESSION_OPEN;
		session->is_quiet = 0;
		if (path_bytes)
			memcpy(session->tool, body + sizeof request, path_bytes);
		store.bytes = kernel_call(SYS_fstat, fd, (long)&file, 0, 0)
				      ? 0
				      : (uint64_t)file.st_size;
		error = message_send(session->fd, CONTROL_STORE, message->serial, &store,
				     sizeof store, NULL, 0, fd, NULL);
		kernel_close(fd);
		report_modules_to(session_lane(session));
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
	error = session_patching_lock(session_text, rules.strict != 0);
	if (error)
		return error;
	if (message->type == CONTROL_ARM)
		session->is_quiet = 0;
	/* without the hook no one has reported the modules that came since */
	if (!hook_is_placed() && !registry_scan(session_text))
		registry_follow(session_text);
	error = registry_rule(session_text, session_lane(session), body, rules.count,
			      message->type == CONTROL_ARM, change);
	lock_release(&agent_lock);
	return error;
}

/* Kept also where they can't be read now: then their values say so. */
static int serve_cost(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_cost cost;
	int error;

	if (message->bytes < sizeof cost)
		return -WM_E_PROTOCOL;
	memcpy(&cost, body, sizeof cost);
	body += sizeof cost;
	if (message_check_strings(body, message->bytes - sizeof cost, cost.count) ||
	    !(cost.kinds | cost.callers) || cost.kinds & ~COST_ALL ||
	    cost.callers > FIELD_CALLERS_MAX)
		return -WM_E_PROTOCOL;
	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = lock_take(&agent_lock, SESSION_LOCK_MS);
	if (error)
		return error;
	for (uint32_t i = 0; !error && i < cost.count; i++, body += strlen(body) + 1) {
		error = rule_check(body);
		if (!error)
			error = cost_add(session_lane(session), body, cost.kinds, cost.callers);
	}
	if (cost.kinds)
		cost_filters_set(session_lane(session), cost.filters);
	detours_allow();
	if (!error && cost.kinds && !cost_is_allowed())
		error = -EACCES;
	else if (!error && cost.kinds)
		cost_counters_extend();
	lock_release(&agent_lock);
	return error;
}

static int serve_predicates(struct session *session, const struct wm_message *message,
			    const char *body)
{
	struct predicate predicates[PREDICATES_MAX];
	struct sum_field sums[SUM_FIELDS_MAX];
	struct control_predicates head;
	size_t bytes, sums_at;
	int error;

	if (message->bytes < sizeof head)
		return -WM_E_PROTOCOL;
	memcpy(&head, body, sizeof head);
	if (head.count > PREDICATES_MAX || head.sums > (head.is_summed ? SUM_FIELDS_MAX : 0))
		return -WM_E_PROTOCOL;
	sums_at = sizeof head + head.count * sizeof predicates[0];
	bytes = sums_at + head.sums * sizeof sums[0];
	if (message->bytes < bytes ||
	    message_check_strings(body + bytes, message->bytes - bytes, 1))
		return -WM_E_PROTOCOL;
	memcpy(predicates, body + sizeof head, head.count * sizeof predicates[0]);
	memcpy(sums, body + sums_at, head.sums * sizeof sums[0]);
	if (!sums_are_sound(sums, head.sums))
		return -WM_E_PROTOCOL;
	for (uint32_t i = 0; i < head.count; i++)
		if (!predicate_is_sound(&predicates[i]))
			return -WM_E_PROTOCOL;
	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = rule_check(body + bytes);
	if (!error)
		error = lock_take(&agent_lock, SESSION_LOCK_MS);
	if (error)
		return error;
	error = predicates_add(session_lane(session), body + bytes, predicates, head.count, sums,
			       head.is_summed ? head.sums : -1);
	lock_release(&agent_lock);
	return error;
}

static void follow_modules(struct session *session, uint32_t watches)
{
	if (!session->follows_ns)
		session->follows_ns = lock_now_ns();
	session->watches = watches != 0;
}

/* Whether the module is there that a PLACE is for, and not another one at its address. */
static int is_loaded(const struct session *session, const struct wm_message *message,
		     const char *body)
{
	const struct module *module = registry_modules();
	struct control_place place;

	if (message->bytes < sizeof place)
		return 1; /* which is refused */
	memcpy(&place, body, sizeof place);
	if (!place.base)
		return 1;
	while (module && module->base != place.base)
		module = module->next;
	if (place.came_ns)
		return module && module->came_ns == place.came_ns;
	return !module || !session->follows_ns || module->came_ns <= session->follows_ns;
}

static int serve_detours(struct session *session, const struct wm_message *message,
			 const char *body, struct change *change)
{
	struct control_commit commit = { 0 };
	int error;

	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = session_patching_lock(session_text, 0);
	if (error)
		return error;
	session->is_quiet = 0;
	if (!hook_is_placed() && !registry_scan(session_text))
		registry_follow(session_text);
	if (message->type == CONTROL_COMMIT) {
		if (message->bytes >= sizeof commit)
			memcpy(&commit, body, sizeof commit);
		if (commit.replaces)
			detour_release_unprepared(session_lane(session));
		wait_renew(COMMIT_MS);
		error = detours_commit(session_lane(session), session_text, change);
		session->set = commit.set;
		follow_modules(session, commit.watches);
	} else if (is_loaded(session, message, body)) {
		error = detours_place(session_lane(session), session_text, body, message->bytes,
				      change);
	}
	lock_release(&agent_lock);
	return error;
}

/* Returns a count of places, or an error. */
static int adopt(struct session *session, const struct control_adopt *adopt)
{
	int count = session_patching_lock(session_text, 0);

	if (count)
		return count;
	count = session_adopt(session_lane(session), session->came, adopt->set);
	if (count >= 0) {
		detours_adopted(session_text);
		session->is_quiet = 0;
		session->set = adopt->as;
		follow_modules(session, adopt->watches);
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

static int serve_seen(struct session *session)
{
	if (session->unseen)
		session->unseen--;
	if (!session->unseen)
		session->is_behind = 0;
	return 0;
}

/* The first watch of a session carries the table. The agent reports the table before it answers. */
static int watch(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_watch_table table = { .bytes = sizeof(struct watch_table),
					     .kept_at = (uint64_t)(uintptr_t)take_keep };
	struct control_watch about;
	struct ucred peer = { 0 };
	int error, fd;

	memcpy(&about, body, sizeof about);
	detours_allow();
	socketdir_peer(session->fd,
		       &peer); /* who it is; session_add() has asked whether we serve it */
	error = watch_add(session_lane(session), &about, body + sizeof about,
			  message->bytes - sizeof about, peer.pid, &fd);
	if (fd < 0)
		return error;
	if (message_send(session->fd, CONTROL_WATCH_TABLE, message->serial, &table, sizeof table,
			 NULL, 0, fd, NULL))
		error = -EPIPE;
	kernel_close(fd);
	return error;
}

static int serve_watch(struct session *session, const struct wm_message *message, const char *body)
{
	struct control_unwatch unwatch;
	int error = 0;

	if (message->bytes <
	    (message->type == CONTROL_WATCH ? sizeof(struct control_watch) : sizeof unwatch))
		return -WM_E_PROTOCOL;
	if (session->state != SESSION_OPEN)
		return -EINVAL;
	error = lock_take(&agent_lock, SESSION_LOCK_MS);
	if (error)
		return error;
	if (message->type == CONTROL_WATCH) {
		session->is_quiet = 0;
		error = watch(session, message, body);
	} else {
		memcpy(&unwatch, body, sizeof unwatch);
		watch_remove(session_lane(session), unwatch.from, unwatch.to);
	}
	lock_release(&agent_lock);
	return error;
}

/* Returns 1: there is no answer. */
static int serve_wait(const struct wm_message *message, const char *body)
{
	struct control_wait wait = { 0 };
	size_t bytes = message->bytes < sizeof wait ? message->bytes : sizeof wait;

	memcpy(&wait, body, bytes);
	wait_renew(wait.ms);
	return 1;
}

static int serve_handlers(struct session *session, const struct wm_message *message,
			  const char *body, struct change *change)
{
	int error;

	if (session->state != SESSION_OPEN)
		return -EINVAL;
	if (message->type == CONTROL_HANDLER_FILE)
		return objects_file(session_lane(session), body, message->bytes);
	if (message->type == CONTROL_UNLOAD) {
		/* where QUIET failed, what is still armed calls them */
		error = session_quiet(session, change, 0);
		return error && error != -ETIMEDOUT
			       ? error
			       : objects_unload(session_lane(session), message->serial);
	}
	return objects_load(session_lane(session), message->serial, body, message->bytes);
}

/* Whether it would arm what a handler that isn't there is to judge. */
static int arms(uint16_t type)
{
	return type == CONTROL_ARM || type == CONTROL_PLACE || type == CONTROL_COMMIT ||
	       type == CONTROL_ADOPT;
}

static int serve_list(struct session *session)
{
	int error = lock_take(&agent_lock, SESSION_LOCK_MS);

	if (error)
		return error;
	if (!hook_is_placed() && !registry_scan(session_text))
		registry_follow(session_text);
	error = report_list(session_lane(session));
	lock_release(&agent_lock);
	return error;
}

int request_serve(struct session *session, const struct wm_message *message, struct change *change)
{
	const char *body = (const char *)(message + 1);
	int error = objects_error(session_lane(session));

	if (error && arms(message->type))
		return error;
	switch (message->type) {
	case CONTROL_OPEN:
		return serve_open(session, message, body);
	case CONTROL_ARM:
	case CONTROL_DISARM:
		return serve_rules(session, message, body, change);
	case CONTROL_COST:
		return serve_cost(session, message, body);
	case CONTROL_PREDICATES:
		return serve_predicates(session, message, body);
	case CONTROL_PLACE:
	case CONTROL_COMMIT:
		return serve_detours(session, message, body, change);
	case CONTROL_ADOPT:
		return serve_adopt(session, message, body, change);
	case CONTROL_WATCH:
	case CONTROL_UNWATCH:
		return serve_watch(session, message, body);
	case CONTROL_SEEN:
		return serve_seen(session);
	case CONTROL_HANDLER_FILE:
	case CONTROL_HANDLERS:
	case CONTROL_UNLOAD:
		return serve_handlers(session, message, body, change);
	case CONTROL_LIST:
		return serve_list(session);
	case CONTROL_WAIT:
		return serve_wait(message, body);
	case CONTROL_GO:
		session->awaits_go = 0;
		return 0; /* once the answer is sent: the program may end right then */
	case CONTROL_QUIET:
	case CONTROL_LEAVE:
		error = session_quiet(session, change, SESSION_QUIET_MS);
		/*
		 * who is in a hit still has not passed the marker: all that were passed are
		 * recorded
		 */
		return error == -ETIMEDOUT ? 0 : error;
	default:
		return 1; /* unknown: ignored, without an answer */
	}
}
