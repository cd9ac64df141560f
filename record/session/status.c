/* SPDX-License-Identifier: MIT */
/* Which processes of a session are alive, and its counts. */
#include "record/session/life.h"
#include "record/session/process.h"
#include "record/session/session.h"
#include "record/session/sources.h"
#include "target/process/call.h"

#include <errno.h>
#include <string.h>

/* Whether the process executed another program whose agent has reported since. */
static int was_replaced(const struct wm_session *session, const struct process *process)
{
	for (const struct process *p = session->processes; p != process; p = p->next)
		if (p->pid == process->pid && p->state >= PROCESS_READY &&
		    !p->outside == !process->outside)
			return 1; /* newer entries are before older ones */
	return 0;
}

int session_is_final(const struct wm_session *session, struct process *process)
{
	if (process->state != PROCESS_HUNG_UP)
		return 0;
	if (process->is_kernel)
		return process->arming == PROCESS_QUIET;
	return (process_is_dead(process) || was_replaced(session, process) ||
		process->arming == PROCESS_QUIET || process->unmapped) &&
	       !process_is_shared(process);
}

enum drain_reach session_reach(const struct wm_session *session, struct process *process)
{
	return process->arming == PROCESS_QUIET || session_is_final(session, process) ? DRAIN_ALL
										      : DRAIN_PEEK;
}

int session_alive(const struct wm_session *session)
{
	int count = 0;

	/* a dead process counts until its last events are in the folder */
	for (struct process *p = session->processes; p; p = p->next)
		count += p->state < PROCESS_HUNG_UP ||
			 (p->state == PROCESS_HUNG_UP && p->drain && !p->is_kernel &&
			  (session->writer || !session_is_final(session, p)));
	return count + sources_alive(session);
}

int session_awaited(const struct wm_session *session)
{
	int count = session_alive(session);

	for (const struct process *p = session->processes; p && !count && session->running;
	     p = p->next)
		count = process_executes(p);
	return count;
}

int session_running(const struct wm_session *session)
{
	int count = 0;

	for (const struct process *p = session->processes; p; p = p->next)
		count += p->state < PROCESS_HUNG_UP && !process_is_dead(p) &&
			 !sources_running(session, p->pid);
	return count + sources_running(session, 0);
}

int session_has_unread(const struct wm_session *session)
{
	if (session->writer || session->is_written)
		return 0;
	if (session->held)
		return 1;
	for (struct process *p = session->processes; p; p = p->next) {
		/* a flight recorder is read when no thread writes any more */
		int is_read = session->options.policy != WM_POLICY_CYCLIC ||
			      session_reach(session, p) == DRAIN_ALL;

		if ((p->drain && is_read && reader_has_unread(p)) || life_is_due(session, p))
			return 1;
	}
	return 0;
}

void session_count(const struct wm_session *session, struct drain_counts *counts)
{
	*counts = session->past;
	for (const struct process *p = session->processes; p; p = p->next)
		if (p->drain)
			drain_count_add(p->drain, counts);
}

int wm_session_status_get(struct wm_session *session, struct wm_session_status *status)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct wm_session_status now = { 0 };
	struct drain_counts counts;

	if (!session || !status || status->size < sizeof(status->size))
		return -EINVAL;
	if (session_call_refused(session) == -ECHILD)
		return -ECHILD;
	now.size = status->size;
	now.processes = (uint32_t)session_alive(session);
	session_count(session, &counts);
	now.processes_ever = session->processes_ever + counts.children;
	FOR_SOURCES(source, status)
		source->status(session, &now);
	now.markers = session->markers;
	now.sites = session->sites;
	now.refused = session->refused;
	now.recorded = counts.recorded;
	now.discarded = counts.discarded;
	now.bytes = counts.bytes;
	for (struct process *p = session->processes; p; p = p->next)
		now.buffered_bytes += p->drain ? drain_used_bytes(p->drain) : 0;
	memcpy(status, &now, now.size < sizeof(now) ? now.size : sizeof(now));
	return 0;
}

uint64_t session_held_events(const struct wm_session *session)
{
	uint64_t count = 0;

	for (const struct process *p = session->processes; p; p = p->next)
		count += p->drain ? drain_held(p->drain) : 0;
	return count;
}
