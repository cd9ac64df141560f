/* SPDX-License-Identifier: MIT */
/* Wait for a session, and read its events without a trace folder. */
#include "record/drain/watermark.h"
#include "record/session/event_reader.h"
#include "record/session/life.h"
#include "record/session/process.h"
#include "target/process/call.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

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
	if (got < 0 && !session->is_explained)
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
		drain_session_finish(session, process);
		process->state = PROCESS_OVER; /* HUNG_UP -> OVER */
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
