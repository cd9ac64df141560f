/* SPDX-License-Identifier: MIT */
/* Stop a session: make its processes quiet, and complete its trace. */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "target/process/call.h"
#include "trace/writer.h"

#include <limits.h>
#include <stdio.h>
#include <waymark/error.h>

#define SHARED_WAIT_NS 600000000u
#define ROUNDS_MAX 8 /* to end children that are forked while a session ends */

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
		if (!process_is_usable(p) || p->arming != PROCESS_ARMED)
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
	first = 0;
	FOR_SOURCES_BACK(source, leave) {
		err = source->leave(session);
		first = first ? first : err;
	}
	first = end_all(session, first);
	FOR_SOURCES_BACK(source, end)
		source->end(session);
	/*
	 * an agent that did not answer is stopped or hangs in a hit: its committed events are whole
	 */
	for (struct process *p = session->processes; p; p = p->next) {
		if (p->drain && session->writer)
			drain_session_finish(session, p);
		else /* it may have ended, and be unread: its hits count, below */
			session_quiet_sources(session, p);
	}
	if (!first)
		zero = session_use_zero(session, (struct detail){ session->detail,
								  sizeof(session->detail) });
	if (session->writer) {
		err = session_folder_close(session);
		if (err && err != session->explained)
			session_fail(session, err, "%s", session->dir ? session->dir : "");
		first = err ? err : first;
	}
	session_pollable_update(session);
	return first ? first : zero;
}
