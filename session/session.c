/* SPDX-License-Identifier: MIT */
/* The public API, as waymark/session.h documents it. */
#include "base/notify.h"
#include "claim/ledger.h"
#include "process/call.h"
#include "process/pollable.h"
#include "process/target.h"
#include "session/event_reader.h"
#include "session/life.h"
#include "session/poll.h"
#include "session/process.h"
#include "session/process_trace.h"
#include "session/use.h"
#include "session/watch/change_watch.h"
#include "session/watch/figures.h"
#include "session/watch/watches.h"
#include "session/watch/watching.h"
#include "session/watermark.h"

#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

#define BUFFER_BYTES (16u << 20)
#define BUFFER_BYTES_MAX (UINT64_C(1) << 36) /* the limit of mapping.c */
#define BLOCK_NS 100000000u
#define WATERMARK_PERCENT 50
#define LEAVE_WAIT_MS 2000
#define STEP_NS 1000000u
#define SHARED_WAIT_NS 600000000u
#define ROUNDS_MAX 8 /* to end children that are forked while a session ends */

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

static void options_release(struct wm_session_options *options)
{
	free((char *)options->agent_path);
	free((char *)options->engine_path);
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
		return -WM_E_BUFFER_LIMIT;
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
	const char *agent = options->agent_path, *engine = options->engine_path;

	options->agent_path = agent ? strdup(agent) : NULL;
	options->engine_path = engine ? strdup(engine) : NULL;
	if ((!agent || options->agent_path) && (!engine || options->engine_path))
		return 0;
	options_release(options);
	return -ENOMEM;
}

int wm_session_open(struct wm_session **session, const struct wm_session_options *options)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_session *new;
	int err;

	if (!session)
		return -EINVAL;
	*session = NULL;
	new = calloc(1, sizeof(*new));
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
	new->live.machine.engine = new->options.engine_path;
	*session = new;
	return 0;
}

int wm_session_add(struct wm_session *session, const char *spec)
{
	struct session_call call SESSION_CALL = session_call_begin();
	const char *words;
	int err = spec ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	if (session->running)
		return session_fail(session, -EBUSY, "%s: the session runs", spec);
	probes_release(&session->probes); /* they hold plans for fewer specs */
	err = spec_add(&session->specs, spec);
	words = session->specs.words;
	if (!err) {
		char why[256] = "";

		err = use_spec(&session->specs.all[session->specs.count - 1],
			       (struct detail){ why, sizeof(why) });
		if (!err)
			return 0;
		spec_drop(&session->specs);
		return session_fail(session, err, "%s: %s", spec, why);
	}
	/* some begin with the spec itself */
	if (!strncmp(words, spec, strlen(spec)))
		return session_fail(session, err, "%s", words);
	return session_fail(session, err, "%s%s%s", spec, words[0] ? ": " : "", words);
}

int wm_session_output(struct wm_session *session, const char *dir)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int err = dir ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	if (session->running || session->dir)
		return session_fail(session, -EBUSY, "%s", dir);
	err = trace_writer_open(&session->writer, dir);
	if (err) {
		session->writer = NULL;
		return session_fail(session, err, "%s", dir);
	}
	session->dir = strdup(dir);
	if (!session->dir)
		return -ENOMEM;
	for (struct process *p = session->processes; p && !err; p = p->next)
		err = process_trace(session, p);
	return err < 0 ? session_fail(session, err, "%s", dir) : 0;
}

int wm_session_wait(struct wm_session *session, int timeout_ms)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int got = session_call_refused(session), alive;
	uint64_t until;

	if (got)
		return got;
	until = ticks_monotonic_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000u;
	do {
		uint64_t now = ticks_monotonic_ns();
		int left = timeout_ms <= 0 ? timeout_ms
			   : now < until   ? (int)((until - now) / 1000000u)
					   : 0;

		/*
		 * pause even if events come fast, so that a caller's loop of wait and read costs
		 * little
		 */
		if (left && session_has_unread(session))
			left = 1;
		got = session_step(session, session->is_woken ? 0 : left);
	} while (!got && session_awaited(session) && !session_has_unread(session) &&
		 !session->is_woken && (timeout_ms < 0 || ticks_monotonic_ns() < until));
	session->is_woken = 0;
	alive = session_awaited(session);
	session->is_end_told = got < 0 || !alive;
	session_pollable_update(session);
	if (got < 0 && got != session->live.error)
		return session_fail(session, got, "%s", session->dir ? session->dir : "");
	return got < 0 ? got : alive;
}

int wm_session_wake(struct wm_session *session)
{
	uint64_t one = 1;
	int before = errno;

	if (!session)
		return -EINVAL;
	if (session->owner != getpid())
		return -ECHILD;
	/* not write(), a cancellation point; if the counter is full, the poll returns anyway */
	syscall(SYS_write, session->wake, &one, sizeof(one));
	errno = before;
	return 0;
}

/* With process_events, first read the program that this process replaced. */
static int read_process(struct wm_session *session, struct process *process,
			int (*event)(const struct wm_event *event, void *data), void *data)
{
	struct process *older = session->options.process_events ? life_older(process) : NULL;
	int result = older ? read_process(session, older, event, data) : 0, is_last;

	if (!result)
		result = life_read(session, process, event, data);
	if (result || !process->drain)
		return result;
	is_last = process->state == PROCESS_HUNG_UP && session_reach(session, process) == DRAIN_ALL;
	result = reader_pass(session, process, event, data);
	if (!result && is_last) {
		session_finish(session, process);
		process->state = PROCESS_OVER;
		result = life_read(session, process, event, data);
	}
	return result;
}

int wm_session_read(struct wm_session *session,
		    int (*event)(const struct wm_event *event, void *data), void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int result = event ? session_call_refused(session) : -EINVAL;

	if (result)
		return result;
	if (session->dir)
		return session_fail(session, -EBUSY, "%s: the session records into a folder",
				    session->dir);
	session_step(session, 0);
	session->reading = 1;
	result = reader_resume(session, event, data);
	if (!result)
		result = life_read_begins(session, event, data);
	for (struct process *p = session->processes; p && !result; p = p->next)
		result = read_process(session, p, event, data);
	session->reading = 0;
	if (session->watermark)
		watermark_wind(session->watermark);
	session_pollable_update(session);
	return result;
}

/* Write the clocks' rates to the trace; they are more exact now, after a longer time. */
static void note_length(struct wm_session *session)
{
	struct wm_session_status status = { .size = sizeof(status) };
	struct ticks_point now;
	uint64_t hz;
	int err;

	ticks_now(STORE_CLOCK_TSC, &now);
	hz = ticks_hz_between(&session->began, &now);
	err = trace_clock_set(session->writer, hz ? hz : session->tsc_hz, session->began.ticks,
			      session->began.realtime_ns);
	if (!err)
		err = trace_clock_set(session->writer, 1000000000u, session->began.monotonic_ns,
				      session->began.realtime_ns);
	if (err && !session->trace_error)
		session->trace_error = err;
	wm_session_status_get(session, &status);
	trace_end_set(session->writer,
		      session->started_ns ? ticks_monotonic_ns() - session->started_ns : 0,
		      status.discarded);
}

static int close_trace(struct wm_session *session)
{
	int err = figures_write(&session->watched, session->writer), copied, closed;

	for (size_t i = 0; i < session->unrecorded.count; i++) {
		const struct unrecorded *one = &session->unrecorded.all[i];
		char reason[PATH_MAX + 256];

		snprintf(reason, sizeof(reason), "%s%s%s", wm_error_text(one->error),
			 one->detail ? ": " : "", one->detail ? one->detail : "");
		trace_unrecorded_add(session->writer, one->program, one->processes, reason);
	}
	copied = trace_perf_maps_copy(session->writer);
	closed = trace_writer_close(session->writer);
	err = closed ? closed : err ? err : copied;
	session->writer = NULL;
	if (err && !session->trace_error)
		session->trace_error = err;
	return session->trace_error;
}

/* Keep the first error of ending a process. */
static int note_end(struct wm_session *session, const struct process *process, int first, int err)
{
	if (first || !err || err == -WM_E_GONE)
		return first;
	if (err == -WM_E_STOPPED)
		return session_fail(session, err,
				    "pid %d; its markers are disarmed when it continues",
				    (int)process->pid);
	if (err == -WM_E_AGENT_SILENT)
		return session_fail(session, err, "pid %d; what it had recorded by then is kept",
				    (int)process->pid);
	return session_fail(session, err, "pid %d", (int)process->pid);
}

/*
 * Make all armed processes quiet; return how many. The first round also awaits answers of others.
 */
static int end_round(struct wm_session *session, unsigned int round, int *first)
{
	int count = 0, err;

	for (struct process *p = session->processes; p; p = p->next) {
		if (!process_is_usable(p) || !p->armed)
			continue;
		p->error = 0;
		p->ended_in = round;
		*first = note_end(session, p, *first, session_disarm(session, p));
		count++;
	}
	for (struct process *p = session->processes; p; p = p->next) {
		if (!process_is_usable(p) || (round > 1 && p->ended_in != round))
			continue;
		err = session_wait_moving(session, p, ANSWER_WAIT_MS);
		*first = note_end(session, p, *first, err);
	}
	return count;
}

static int any_forks(const struct wm_session *session)
{
	for (const struct process *p = session->processes; p; p = p->next)
		if (p->drain && drain_is_forking(p->drain))
			return 1;
	return 0;
}

/*
 * Forked children that could not reach us write to their parents' stores. They check four times a
 * second whether the session has ended.
 */
static void end_shared(struct wm_session *session)
{
	uint64_t until_ns = ticks_monotonic_ns() + SHARED_WAIT_NS;
	int is_shared = 1;

	/* a child that was forked before its parent was quiet may write there too */
	while (any_forks(session) && ticks_monotonic_ns() < until_ns)
		session_step(session, 1);
	for (struct process *p = session->processes; p; p = p->next)
		if (p->drain)
			drain_unshare(p->drain);
	while (is_shared && ticks_monotonic_ns() < until_ns) {
		is_shared = 0;
		for (struct process *p = session->processes; p; p = p->next)
			is_shared |= process_is_shared(p);
		if (is_shared)
			session_step(session, 5);
	}
}

/*
 * A child forked before its parent was quiet is recorded to the end, as its parent is. Each
 * generation of children takes a round.
 */
static int end_all(struct wm_session *session, int first)
{
	unsigned int round = 0;

	session->is_ending = session->running;
	session->running = 0;
	for (struct process *p = session->processes; p; p = p->next)
		p->ended_in = 0;
	while (end_round(session, ++round, &first) && session->is_ending)
		session->is_ending = round < ROUNDS_MAX;
	session->is_ending = 0;
	end_shared(session);
	return first;
}

int wm_session_stop(struct wm_session *session)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int first, zero = 0, err = session_call_refused(session);

	if (err)
		return err;
	if (session->running)
		unrecorded_look(session, 1);
	first = end_all(session, live_stop(session));
	/*
	 * an agent that did not answer is stopped or hangs in a hit: its committed events are whole
	 */
	for (struct process *p = session->processes; p && session->writer; p = p->next)
		if (p->drain)
			session_finish(session, p);
	if (session->writer)
		note_length(session);
	if (!first)
		zero = use_zero(session,
				(struct detail){ session->detail, sizeof(session->detail) });
	if (session->writer) {
		err = close_trace(session);
		if (err)
			first = session_fail(session, err, "%s", session->dir);
	}
	session_pollable_update(session);
	return first ? first : zero;
}

static int find_watch(const struct wm_session *session, const char *spec, size_t *index)
{
	for (*index = 0; *index < session->specs.count; ++*index)
		if (session->specs.all[*index].watch &&
		    !strcmp(session->specs.all[*index].text, spec))
			return 0;
	return -ENOENT;
}

int wm_session_modify(struct wm_session *session, const char *spec, const char *to,
		      struct wm_kevent_gap *gap)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_kevent_gap reported = { .size = gap ? gap->size : 0 };
	size_t index;
	int err = spec && to ? session_call_refused(session) : -EINVAL;

	if (err)
		return err;
	session->detail[0] = 0;
	if (gap && gap->size < sizeof(gap->size))
		return session_fail(session, -EINVAL, "gap.size: %zu", gap->size);
	if (!session->running)
		return session_fail(session, -EINVAL, "the session does not run");
	if (find_watch(session, spec, &index))
		return session_fail(session, -ENOENT, "%s", spec);
	err = change_watch(session, index, to, &reported);
	if (gap)
		memcpy(gap, &reported,
		       reported.size < sizeof(reported) ? reported.size : sizeof(reported));
	return err;
}

const char *wm_session_detail(const struct wm_session *session)
{
	return session ? session->detail : "";
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
	live_release(session);
	watermark_free(session->watermark);
	reader_drop(session);
	if (session->agent_link[0])
		unlink(session->agent_link);
	while (session->listeners) {
		struct listener *next = session->listeners->next;

		listener_free(session->listeners);
		session->listeners = next;
	}
	probes_release(&session->probes);
	watched_list_release(&session->watched);
	unrecorded_release(&session->unrecorded);
	spec_list_release(&session->specs);
	name_list_release(&session->names);
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
