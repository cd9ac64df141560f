/* SPDX-License-Identifier: MIT */
/* How a session's processes are taken, all at the same time, and let go. */
#include "record/session/process.h"
#include "record/trail/live_process.h"
#include "record/watch/watching.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdio.h>
#include <waymark/error.h>

#define WAITED_MAX 64u
#define WAIT_MS 100
#define WAIT_MANY_MS 2 /* if there are more */
#define ASK_MS 10000

static int not_taken(struct wm_session *session, struct live_process *live, int err)
{
	char words[512] = "";
	struct target target;

	live->is_over = 1;
	if (err == -WM_E_TRACE_FULL)
		return session_fail(session, err, "%s", session->dir);
	snprintf(words, sizeof(words), "%s", live->tracer.detail);
	/* the kernel also returns EPERM if another tracer was faster */
	if (err == -EPERM && !target_read(&target, live->pid)) {
		int why = target_may_trace(&target, (struct detail){ words, sizeof(words) });

		err = why ? why : err;
	}
	return session_fail(session, err, "pid %d%s%s", (int)live->pid, words[0] ? ": " : "",
			    words);
}

static int process_take(struct wm_session *session, struct live_process *live)
{
	struct tracing_how how = live_how_of(session);
	int err = tracer_attach(&live->tracer, live_sink_of(live), &how, live->pid, 0);

	return err ? not_taken(session, live, err) : live_taken(live);
}

/*
 * Whether live_join() has nothing to do: the engine has the process already; or the process is a
 * child that the engine does not have, which counts as unfollowed.
 */
static int has_come(struct wm_session *session, const struct process *process)
{
	if (!live_launches(session))
		return 0;
	for (const struct live_process *p = session->live->processes; p; p = p->next)
		if (p->pid == process->pid)
			return 1;
	session->live->unfollowed += !process->invited;
	return !process->invited;
}

int live_join(struct wm_session *session, const struct process *process)
{
	struct live_process *live;
	int err = live_ready(session);

	if (err || !live_is_wanted(session) || has_come(session, process))
		return err;
	err = live_add(session, process->pid, &live);
	if (!err)
		err = process_take(session, live);
	if (!err)
		live_keep_at(session, process);
	return err;
}

static int take_begin(struct live_process *live)
{
	struct tracing_how how = live_how_of(live->session);
	int err = tracer_attach_begin(&live->tracer, live_sink_of(live), &how, live->pid);

	live->is_begun = !err;
	return err ? not_taken(live->session, live, err) : 0;
}

/* Look whether the process is taken; if so, let it run. Returns 1 if not yet. */
static int take_look(struct live_process *live)
{
	struct wm_session *session = live->session;
	int got = tracer_attach_look(&live->tracer);

	if (got > 0)
		return 1;
	live->is_begun = 0;
	if (!got)
		got = live_taken(live);
	else
		return not_taken(session, live, got);
	if (!got)
		live_go(live);
	return got;
}

size_t live_waits(const struct wm_session *session, struct pollfd *list, size_t room)
{
	size_t count = 0;

	for (const struct live_process *p = session->live->processes; p; p = p->next) {
		if (!(p->is_taken || p->is_begun) || (p->is_over && !p->is_asked) || p->is_silent ||
		    p->tracer.fd < 0)
			continue;
		if (count < room)
			list[count] = (struct pollfd){ .fd = p->tracer.fd, .events = POLLIN };
		count++;
	}
	return count;
}

/* Wait until a tracer has sent something, or for a moment. */
static void await_some(const struct wm_session *session)
{
	struct pollfd list[WAITED_MAX];
	size_t count = live_waits(session, list, WAITED_MAX);

	poll(list, count < WAITED_MAX ? count : WAITED_MAX,
	     count > WAITED_MAX ? WAIT_MANY_MS : WAIT_MS);
}

/*
 * Take all processes at the same time. Read what the first ones send meanwhile, so that they don't
 * have to wait for us.
 */
static int take_all(struct wm_session *session)
{
	int err = 0, left = 1;

	for (struct live_process *p = session->live->processes; p && !err; p = p->next)
		if (!p->is_taken && !p->is_over)
			err = take_begin(p);
	while (left && !err) {
		left = 0;
		for (struct live_process *p = session->live->processes; p && err >= 0;
		     p = p->next) {
			err = p->is_begun ? take_look(p) : 0;
			left |= p->is_begun;
		}
		if (err >= 0)
			err = live_pump(session);
		err = err < 0 ? err : 0;
		if (left && !err)
			await_some(session);
	}
	return err;
}

int live_start(struct wm_session *session)
{
	int err = take_all(session);

	for (struct live_process *p = session->live->processes; p && !err; p = p->next)
		if (p->is_taken && !p->root)
			live_go(p);
	return err;
}

void live_ask_all(struct wm_session *session)
{
	uint64_t end_ns = ticks_monotonic_ns() + ASK_MS * UINT64_C(1000000);
	int left = 1;

	for (struct live_process *p = session->live->processes; p; p = p->next) {
		p->is_asked = !p->root && (p->is_taken || p->is_begun);
		if (p->is_asked)
			tracer_ask(&p->tracer);
	}
	while (left && ticks_monotonic_ns() < end_ns) {
		left = 0;
		for (struct live_process *p = session->live->processes; p; p = p->next)
			if (p->is_asked) {
				p->is_silent = !tracer_take_rest(&p->tracer);
				left |= !p->is_silent;
			}
		if (left)
			await_some(session);
	}
}
