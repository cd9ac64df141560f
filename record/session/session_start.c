/* SPDX-License-Identifier: MIT */
/* Start a session, and report what could not be armed. */
#include "target/process/call.h"
#include "record/kernel/kernel_events.h"
#include "record/trail/live.h"
#include "record/probe/probes.h"
#include "record/session/process.h"
#include "target/process/target.h"
#include "record/spec/spec.h"
#include "record/watch/watching.h"
#include "trace/writer.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

/* If a spec has matched nothing, ask which markers exist, for "did you mean" hints. */
static int ask_names(struct wm_session *session, struct process *process)
{
	for (size_t i = 0; i < session->specs->count; i++) {
		if (!session->specs->all[i].glob || session->specs->all[i].matches)
			continue;
		if (process->named || process_request(process, CONTROL_LIST, NULL, 0))
			return 0;
		process->named = 1;
		return session_wait(session, process, ANSWER_WAIT_MS);
	}
	return 0;
}

/* Wait until the process has armed its markers and probes. */
static int wait_armed(struct wm_session *session, struct process *process)
{
	int err = session_wait(session, process, ANSWER_WAIT_MS);

	if (err == -WM_E_NO_MARKER)
		err = 0; /* a module that matches may come later */
	process->error = 0;
	if (err == -WM_E_GONE)
		return 0; /* it ended meanwhile: that is no error */
	if (err) {
		char detail[DETAIL_BYTES];

		/* the refused spec is more helpful than the pid */
		memcpy(detail, session->detail, sizeof(detail));
		return session_fail(session, err, "pid %d%s%.900s", (int)process->pid,
				    detail[0] ? ": " : "", detail);
	}
	return 0;
}

/* Arm the process's watches and trail, and let it run. */
static int start_process(struct wm_session *session, struct process *process)
{
	int err;

	ask_names(session, process);
	process->error = 0;
	err = watching_arm(session, process);
	if (err == -WM_E_GONE)
		return 0;
	if (!err)
		err = live_join(session, process);
	if (err)
		return err;
	return session_let_go(process) == -WM_E_AGENT_SILENT ? -WM_E_AGENT_SILENT : 0;
}

/* If nothing is armed in any process because threads could not be stopped, fail; else return 0. */
static int fail_unarmed(struct wm_session *session)
{
	const struct process *last = NULL;

	if (session->sites || live_is_wanted(session))
		return 0;
	for (const struct process *p = session->processes; p; p = p->next) {
		if (!process_is_usable(p))
			continue;
		if (!p->probed.refusal)
			return 0;
		last = p;
	}
	return last ? session_fail(session, last->probed.refusal, "pid %d", (int)last->pid) : 0;
}

/* If a spec without a glob has nothing to record in any process, fail; else return 0. */
static int fail_unmatched(struct wm_session *session)
{
	int any = 0;

	for (const struct process *p = session->processes; p; p = p->next)
		any |= process_is_usable(p);
	if (!any || session->options.allow_unmatched)
		return 0;
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];
		int err = spec_is_glob(spec) ? 0 : spec_missing(spec);

		if (err)
			return session_fail(session, err, "%s%s%s", spec->text,
					    spec->detail ? ": " : "",
					    spec->detail ? spec->detail : "");
	}
	return 0;
}

/* Tell the trace's readers what a killed recorder takes with it. */
static int note_in_memory(struct wm_session *session)
{
	const struct trail_request *trail = spec_trail(session->specs);
	int err = 0;

	if (!session->writer)
		return 0;
	if (session->options.policy == WM_POLICY_CYCLIC)
		err = trace_in_memory_add(session->writer, "events");
	else if (trail && trail->last_bytes)
		err = trace_in_memory_add(session->writer, "branches");
	return err ? session_fail(session, err, "%s", session->dir) : 0;
}

/* Refuse specs of a process without a process, and CPUs for which there is no event. */
static int check_scope(struct wm_session *session)
{
	int has_process = session->processes || session->live->processes;
	const struct spec *other = NULL;
	size_t others = 0;

	if (!session->options.cpus)
		return 0;
	for (size_t i = 0; i < session->specs->count; i++)
		if (!session->specs->all[i].kernel) {
			other = &session->specs->all[i];
			others++;
		}
	if (!other || (has_process && others < session->specs->count))
		return 0;
	return session_fail(session, -EINVAL, "%s: CPUs have the kernel's events alone; %s",
			    other->text,
			    has_process ? "leave them out, or name an event of the kernel"
					: "name a process, or start a program");
}

int wm_session_start(struct wm_session *session)
{
	struct session_call call SESSION_CALL = session_call_begin();
	int first = 0, err = session_call_refused(session);

	if (err)
		return err;
	if (session->running)
		return session_fail(session, -EALREADY, "the session runs");
	if (session->dir && !session->writer)
		return session_fail(session, -EINVAL, "%s: the recording has ended", session->dir);
	if (!session->specs->count)
		return session_fail(session, -WM_E_SPEC, "no event was added");
	err = check_scope(session);
	if (!err)
		err = live_keep_ready(session);
	if (!err)
		err = note_in_memory(session);
	if (err)
		return err;
	session->detail[0] = 0;
	session->running = 1;
	session->is_end_told = 0;
	/* before the rest, so that there are switches for all that threads record */
	first = kernel_open(session);
	if (!first)
		kernel_begin(session);
	/* request all first, so that the processes arm at the same time */
	for (struct process *p = session->processes; p && !first; p = p->next) {
		if (!process_is_usable(p))
			continue;
		p->error = 0;
		err = session_arm(session, p);
		if (err && err != -WM_E_GONE && err != -WM_E_NO_MARKER && !first)
			first = session_fail(session, err, "pid %d", (int)p->pid);
	}
	for (struct process *p = session->processes; p && !first; p = p->next)
		if (process_is_usable(p) && p->arming == PROCESS_ARMED)
			first = wait_armed(session, p);
	if (!first)
		first = fail_unmatched(session);
	for (struct process *p = session->processes; p && !first; p = p->next)
		if (process_is_usable(p) && p->arming == PROCESS_ARMED)
			first = start_process(session, p);
	if (!first)
		first = fail_unarmed(session);
	if (!first)
		first = live_start(session);
	if (first) {
		char detail[DETAIL_BYTES];

		memcpy(detail, session->detail, sizeof(detail));
		kernel_drop(session);
		wm_session_stop(session);
		memcpy(session->detail, detail, sizeof(detail));
	} else if (!session->started_ns) {
		session->started_ns = ticks_monotonic_ns();
	}
	session_pollable_update(session);
	return first;
}

int wm_session_refusals(struct wm_session *session,
			int (*refusal)(const struct wm_session_refusal *refusal, void *data),
			void *data)
{
	struct session_call call SESSION_CALL = session_call_begin();
	const struct probe_refusals *list;
	int result = refusal ? session_call_refused(session) : -EINVAL;

	if (result)
		return result;
	for (size_t i = 0; i < session->specs->count && !result; i++) {
		const struct spec *spec = &session->specs->all[i];
		struct wm_session_refusal one = { .size = sizeof(one),
						  .spec = spec->text,
						  .name = "",
						  .module = "",
						  .detail = spec->detail ? spec->detail : "",
						  .error = spec_missing(spec) };

		result = one.error ? refusal(&one, data) : 0;
	}
	list = &session->probes->refusals;
	for (size_t i = 0; i < list->count && !result; i++)
		result = refusal(
			&(struct wm_session_refusal){ .size = sizeof(struct wm_session_refusal),
						      .spec = "",
						      .name = list->all[i].name,
						      .module = list->all[i].module,
						      .detail = list->all[i].detail,
						      .address = list->all[i].address,
						      .error = list->all[i].error,
						      .pid = list->all[i].pid },
			data);
	return result;
}
