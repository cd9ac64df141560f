/* SPDX-License-Identifier: MIT */
/* Open and close a session; before it starts: what it records, and where to. */
#include "base/notify.h"
#include "record/drain/watermark.h"
#include "record/handler/handler_file.h"
#include "record/probe/probes.h"
#include "record/session/patience.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/triggers.h"
#include "record/session/unrecorded.h"
#include "record/spec/names.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/watches.h"
#include "target/claim/ledger.h"
#include "target/process/call.h"
#include "target/process/pollable.h"
#include "target/trial/trial.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#include <waymark/error.h>

#define BUFFER_BYTES (32u << 20)
#define BUFFER_BYTES_MAX (UINT64_C(1) << 36) /* the limit of mapping.c */
#define BLOCK_NS 100000000u
#define WATERMARK_PERCENT 50
#define LEAVE_WAIT_MS 2000
#define STEP_NS 1000000u

struct ledger *session_ledger(struct wm_session *session)
{
	if (!session->ledger)
		ledger_new(&session->ledger);
	return session->ledger;
}

int session_fail(struct wm_session *session, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->detail, sizeof(session->detail), format, arguments);
	va_end(arguments);
	return error;
}

int session_call_refused(struct wm_session *session)
{
	if (!session)
		return -EINVAL;
	if (session->owner != getpid())
		return -ECHILD;
	return session->reading ? session_fail(session, -EDEADLK, "in a callback") : 0;
}

_Static_assert(WM_POLICY_CYCLIC - WM_POLICY_DISCARD == (int)STORE_CYCLIC &&
		       WM_POLICY_BLOCK - WM_POLICY_DISCARD == (int)STORE_BLOCK &&
		       WM_POLICY_NOTIFY - WM_POLICY_DISCARD == (int)STORE_NOTIFY,
	       "the agent has the same policies in the same order, without a default");

enum store_policy session_store_policy(const struct wm_session *session)
{
	return (enum store_policy)(session->options.policy - WM_POLICY_DISCARD);
}

uint64_t session_hz(const struct wm_session *session, uint32_t clock)
{
	return clock == STORE_CLOCK_TSC ? session->tsc_hz : 1000000000u;
}

const char *wm_session_detail(const struct wm_session *session)
{
	return session ? session->detail : "";
}

static void options_release(struct wm_session_options *options)
{
	free((char *)options->agent_path);
	free((char *)options->engine_path);
	free((char *)options->cpus);
	free((char *)options->cgroup);
}

/* Options may be shorter, of older callers; or longer, with 0 in what we don't know. */
static int options_take(struct wm_session_options *to, const struct wm_session_options *from)
{
	const unsigned char *bytes = (const unsigned char *)from;
	int err;

	*to = (struct wm_session_options)WM_SESSION_OPTIONS_INIT;
	if (from) {
		if (from->size < offsetof(struct wm_session_options, policy))
			return -EINVAL;
		for (size_t i = sizeof(*to); i < from->size; i++)
			if (bytes[i])
				return -E2BIG;
		memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	}
	if (to->policy > WM_POLICY_NOTIFY || to->follow > WM_FOLLOW_CHILDREN ||
	    to->watermark_percent > 100)
		return -EINVAL;
	if ((to->agent_path && to->agent_path[0] != '/') ||
	    (to->engine_path && to->engine_path[0] != '/'))
		return -EINVAL;
	err = notify_check(to->policy, to->notify_fd, to->notify_signal);
	if (err)
		return err;
	if (to->buffer_bytes > BUFFER_BYTES_MAX)
		return -WM_E_MEMORY_LIMIT;
	to->size = sizeof(*to);
	to->policy = to->policy ? to->policy : WM_POLICY_DISCARD;
	to->follow = to->follow ? to->follow : WM_FOLLOW_CHILDREN;
	to->buffer_bytes = to->buffer_bytes ? to->buffer_bytes : BUFFER_BYTES;
	to->block_ns = to->block_ns ? to->block_ns : BLOCK_NS;
	to->watermark_percent = to->watermark_percent ? to->watermark_percent : WATERMARK_PERCENT;
	return 0;
}

/* Copy the caller's strings. 0 or -ENOMEM. */
static int options_keep(struct wm_session_options *options)
{
	const char **strings[] = { &options->agent_path, &options->engine_path, &options->cpus,
				   &options->cgroup };
	int err = 0;

	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		if (*strings[i]) {
			*strings[i] = strdup(*strings[i]);
			err = *strings[i] ? err : -ENOMEM;
		}
	if (err)
		options_release(options);
	return err;
}

/* A session and the state of its parts. Zeroed, each of them is empty. */
struct whole {
	struct wm_session session; /* first: free(3) of the session frees all */
	struct spec_list specs;
	struct probes probes;
	struct live live;
	struct watched_list watched;
	struct unrecorded_list unrecorded;
	struct handlers handlers;
	struct triggers triggers;
	struct name_list names;
	struct patience patience;
};

static struct wm_session *session_new(void)
{
	struct whole *whole = calloc(1, sizeof(*whole));

	if (!whole)
		return NULL;
	whole->session = (struct wm_session){
		.specs = &whole->specs,
		.probes = &whole->probes,
		.live = &whole->live,
		.watched = &whole->watched,
		.unrecorded = &whole->unrecorded,
		.handlers = &whole->handlers,
		.triggers = &whole->triggers,
		.names = &whole->names,
		.patience = &whole->patience,
	};
	return &whole->session;
}

int wm_session_open(struct wm_session **session, const struct wm_session_options *options)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_session *new;
	int err;

	if (!session)
		return -EINVAL;
	*session = NULL;
	new = session_new();
	if (!new)
		return -ENOMEM;
	new->owner = getpid();
	new->idle_ns = STEP_NS;
	new->epoll = -1;
	/*
	 * a random start: places that a process has from an earlier session must not look like ours
	 */
	if (getrandom(&new->process_number, sizeof(new->process_number), GRND_NONBLOCK) < 0)
		new->process_number = (uint32_t)ticks_monotonic_ns();
	new->process_number &= INT32_MAX;
	err = options_take(&new->options, options);
	new->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!err && new->wake < 0)
		err = -errno;
	if (!err && new->options.policy == WM_POLICY_NOTIFY)
		err = watermark_new(&new->watermark, new->options.notify_fd,
				    new->options.notify_signal, new->options.watermark_percent);
	if (!err)
		err = options_keep(&new->options);
	if (err) {
		watermark_free(new->watermark);
		if (new->wake >= 0)
			close(new->wake);
		free(new);
		return err;
	}
	new->tsc_hz = ticks_hz(STORE_CLOCK_TSC);
	ticks_now(STORE_CLOCK_TSC, &new->began);
	new->live->machine.engine = new->options.engine_path;
	*session = new;
	return 0;
}

static const enum trial of_watch[] = {
	[WATCH_WRITE] = TRIAL_BREAKPOINT_WRITE,
	[WATCH_READ_WRITE] = TRIAL_BREAKPOINT_ACCESS,
	[WATCH_EXECUTE] = TRIAL_BREAKPOINT_EXECUTE,
};

/*
 * Check before a spec is accepted: a watch needs debug registers that fire; markers and probes need
 * code that can be changed while it runs. Returns 0; -WM_E_BREAKPOINT_DEAD or -WM_E_CODE_CHANGE,
 * with the failed trial in detail.
 */
static int use_spec(const struct spec *spec, struct detail detail)
{
	if (spec->watch)
		return trial_need(of_watch[spec->watch->kind], -WM_E_BREAKPOINT_DEAD, detail);
	if (spec->glob || spec->request)
		return trial_need(TRIAL_CODE_CHANGE, -WM_E_CODE_CHANGE, detail);
	return 0;
}

int session_use_zero(struct wm_session *session, struct detail detail)
{
	struct trial_answer answer;
	char text[512];

	for (size_t i = 0; i < session->specs->count; i++) {
		const struct watched_spec *watched = watches_of(session->watched, i);
		enum trial trial;

		if (!watched || watched->counts.hits || !session->specs->all[i].watch)
			continue;
		trial = of_watch[session->specs->all[i].watch->kind];
		trial_ask_again(trial, &answer);
		if (answer.state == TRIAL_WORKS)
			continue;
		session->watched->unproven = answer.state == TRIAL_FAILS ? -WM_E_BREAKPOINT_DEAD
									 : -WM_E_BREAKPOINT_UNTRIED;
		trial_reason(trial, &answer, text, sizeof(text));
		return detail_set(detail, session->watched->unproven, "%s: %s", watched->text,
				  text);
	}
	return 0;
}

int session_spec_add(struct wm_session *session, const char *spec)
{
	int err = spec_add(session->specs, spec);
	const char *words = session->specs->words;

	if (!err) {
		char why[256] = "";

		err = use_spec(&session->specs->all[session->specs->count - 1],
			       (struct detail){ why, sizeof(why) });
		if (!err && session->options.policy == WM_POLICY_CYCLIC &&
		    spec_sums(session->specs))
			err = detail_set((struct detail){ why, sizeof(why) }, -WM_E_SPEC,
					 "the policy cyclic would overwrite sums");
		if (!err)
			return 0;
		spec_drop(session->specs);
		return session_fail(session, err, "%s: %s", spec, why);
	}
	return session_fail(session, err, "%s%s%s", spec, words[0] ? ": " : "", words);
}

int wm_session_add(struct wm_session *session, const char *spec)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = spec ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	if (session->running)
		return session_fail(session, -EBUSY, "%s: the session runs", spec);
	/* else each part would miss something else: a folder, a process, its rights */
	if (access("/proc/self/stat", F_OK))
		return session_fail(session, -WM_E_NO_PROC, "%s", spec);
	probes_release(session->probes); /* they hold plans for fewer specs */
	return session_spec_add(session, spec);
}

/* In a forked child: close its copies of the sockets, or agents would not see the parent end. */
static void leave(struct wm_session *session)
{
	for (struct process *p = session->processes; p; p = p->next) {
		if (p->link.fd >= 0)
			close(p->link.fd);
		if (p->pidfd >= 0)
			close(p->pidfd);
	}
	for (struct listener *l = session->listeners; l; l = l->next)
		close(l->fd);
	if (session->epoll >= 0)
		close(session->epoll);
	close(session->wake);
	pollable_free(session->pollable);
	free(session);
}

void wm_session_close(struct wm_session *session)
{
	struct session_call call SESSION_CALL = session_call_begin();
	if (!session)
		return;
	if (session->owner != getpid()) {
		leave(session);
		return;
	}
	if (session->running || session->writer)
		wm_session_stop(session);
	for (struct process *p = session->processes; p; p = p->next)
		if (process_is_usable(p))
			process_request(p, CONTROL_LEAVE, NULL, 0);
	while (session->processes) {
		struct process *p = session->processes, **at = &session->processes;

		if (!p->is_silent)
			session_wait_moving(session, p, LEAVE_WAIT_MS);
		if (session->watermark && p->drain)
			watermark_remove(session->watermark, p->drain);
		while (*at != p) /* a new child may be before it in the list */
			at = &(*at)->next;
		*at = p->next;
		session_free_process(p);
	}
	FOR_SOURCES_BACK(source, release)
		source->release(session);
	watermark_free(session->watermark);
	reader_drop(session);
	if (session->agent_link[0])
		unlink(session->agent_link);
	while (session->listeners) {
		struct listener *next = session->listeners->next;

		tool_socket_listener_free(session->listeners);
		session->listeners = next;
	}
	unrecorded_release(session->unrecorded);
	spec_list_release(session->specs);
	name_list_release(session->names);
	number_list_release(&session->numbers);
	free(session->launched);
	free(session->polls);
	if (session->epoll >= 0)
		close(session->epoll);
	close(session->wake);
	pollable_free(session->pollable);
	ledger_free(session->ledger);
	free(session->dir);
	options_release(&session->options);
	free(session);
}
