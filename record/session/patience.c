/* SPDX-License-Identifier: MIT */
#include "record/session/patience.h"

#include "record/session/process.h"
#include "record/session/session.h"
#include "record/spec/spec.h"

#include <errno.h>
#include <poll.h>

#define BEAT_NS 100000000u

/* Whether the program waits for us: it was launched, was forked, or executes. */
static int waits(const struct process *process)
{
	if (process->link.fd < 0 || process->state >= PROCESS_HUNG_UP)
		return 0;
	if (process->state == PROCESS_NEW)
		return process->listener !=
		       NULL; /* a connection that came by itself waits for our answer */
	return process->hello.launched && !process->runs;
}

/*
 * Have the process wait longer. If its socket is full it is busy with our requests, and knows of
 * us.
 */
static void say_wait(struct process *process)
{
	struct control_wait wait = { .ms = CONTROL_WAIT_MS };
	struct iovec part = { &wait, sizeof(wait) };
	struct pollfd ready = { .fd = process->link.fd, .events = POLLOUT };

	if (poll(&ready, 1, 0) == 1 && ready.revents & POLLOUT)
		link_send(&process->link, CONTROL_WAIT, &part, 1);
}

static int is_due(struct wm_session *session)
{
	uint64_t now_ns = ticks_monotonic_ns();

	if (now_ns < session->patience->due_ns)
		return 0;
	session->patience->due_ns = now_ns + BEAT_NS;
	return 1;
}

static void say_wait_to_all(struct wm_session *session)
{
	session_accept(session);
	for (struct process *p = session->processes; p; p = p->next)
		if (waits(p))
			say_wait(p);
}

static void beat(struct wm_session *session, const struct session_progress *progress)
{
	say_wait_to_all(session);
	if (session->patience->watcher.reported &&
	    session->patience->watcher.reported(progress, session->patience->watcher.data))
		session->patience->has_given_up = 1;
}

int patience_is_over(const struct wm_session *session)
{
	return session->patience->has_given_up;
}

int patience_beat(struct wm_session *session, const struct session_progress *progress)
{
	if (is_due(session)) {
		beat(session, progress);
		session_pump_sources(session);
		for (struct process *p = session->processes; p; p = p->next)
			if (p->drain)
				drain_session_aside(session, p);
	}
	return session->patience->has_given_up ? -ECANCELED : 0;
}

void patience_arming(struct wm_session *session)
{
	struct session_progress progress = { 0 };

	for (struct process *p = session->processes; p; p = p->next) {
		progress.total += p->probed.pending;
		progress.done += p->probed.answered;
	}
	if (progress.total && is_due(session))
		beat(session, &progress);
	/* forked children adopt quickly, but then wait for their watches, one after another */
	else if (spec_count(session->specs, SPEC_OF(watch)) && is_due(session))
		say_wait_to_all(session);
	if (!session->patience->has_given_up)
		return;
	for (struct process *p = session->processes; p; p = p->next)
		process_drop_places(p);
}
