/* SPDX-License-Identifier: MIT */
/* Start a session, and report what could not be armed. */
#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "target/process/call.h"
#include "trace/writer.h"

#include <errno.h>
#include <string.h>
#include <waymark/error.h>

/* The refused spec, or handler, is more helpful than the pid. Returns the error. */
static int fail_in(struct wm_session *session, const struct process *process, int err)
{
	char detail[DETAIL_BYTES];

	memcpy(detail, session->detail, sizeof(detail));
	return session_fail(session, err, "pid %d%s%.900s", (int)process->pid,
			    detail[0] ? ": " : "", detail);
}

int session_wait_armed(struct wm_session *session, struct process *process)
{
	int err = session_wait(session, process, ANSWER_WAIT_MS);

	if (err == -WM_E_NO_MARKER)
		err = 0; /* a module that matches may come later */
	process->error = 0;
	if (err == -WM_E_GONE)
		return 0; /* it ended meanwhile: that is no error */
	return err ? fail_in(session, process, err) : 0;
}

/* Arm in the process what waits for that, and let it run. */
static int start_process(struct wm_session *session, struct process *process)
{
	FOR_SOURCES(source, arm) {
		int err = source->arm(session, process);

		if (err)
			return err == -WM_E_GONE ? 0 : err;
	}
	return session_let_go(process) == -WM_E_AGENT_SILENT ? -WM_E_AGENT_SILENT : 0;
}

int session_fail_unmatched(struct wm_session *session, size_t first, int allowed)
{
	for (size_t i = first; i < session->specs->count; i++) {
		const struct spec *spec = &session->specs->all[i];
		int err = spec_is_glob(spec) ? 0 : spec_missing(spec);

		if (err && err != allowed)
			return session_fail(session, err, "%s%s%s", spec->text,
					    spec->detail ? ": " : "",
					    spec->detail ? spec->detail : "");
	}
	return 0;
}

/* Refuse specs of a process without a process, and CPUs for which there is no event. */
static int check_scope(struct wm_session *session)
{
	int has_process = session->processes || sources_alive(session);
	const struct spec *other = NULL;
	size_t others = 0;

	if (!session->options.cpus)
		return 0;
	for (size_t i = 0; i < session->specs->count; i++) {
		const struct source *source = source_of(&session->specs->all[i]);

		if (source && !source->has_cpus) {
			other = &session->specs->all[i];
			others++;
		}
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
	int first = 0, any = 0, err = session_call_refused(session);

	if (err)
		return err;
	if (session->running)
		return session_fail(session, -EALREADY, "the session runs");
	if (session->is_written)
		return session_fail(session, -EINVAL, "the recording has ended");
	if (!session->specs->count)
		return session_fail(session, -WM_E_SPEC, "no event was added");
	err = check_scope(session);
	/* what a killed recorder takes with it */
	if (!err && session->writer && session->options.policy == WM_POLICY_CYCLIC) {
		err = trace_in_memory_add(session->writer, "events");
		err = err ? session_fail(session, err, "%s", session->dir) : 0;
	}
	if (err)
		return err;
	session->detail[0] = 0;
	session->running = 1;
	session->is_end_told = 0;
	FOR_SOURCES(source, open)
		first = first ? first : source->open(session);
	/* request all first, so that the processes arm at the same time */
	for (struct process *p = session->processes; p && !first; p = p->next) {
		if (!process_is_usable(p))
			continue;
		p->error = 0;
		err = session_arm(session, p);
		if (err && err != -WM_E_GONE && err != -WM_E_NO_MARKER && !first)
			first = fail_in(session, p, err);
	}
	for (struct process *p = session->processes; p && !first; p = p->next)
		if (process_is_usable(p) && p->arming == PROCESS_ARMED)
			first = session_wait_armed(session, p);
	for (const struct process *p = session->processes; p; p = p->next)
		any |= process_is_usable(p);
	if (!first && any && !session->options.allow_unmatched)
		first = session_fail_unmatched(session, 0, 0);
	for (struct process *p = session->processes; p && !first; p = p->next)
		if (process_is_usable(p) && p->arming == PROCESS_ARMED)
			first = start_process(session, p);
	FOR_SOURCES(source, begin)
		first = first ? first : source->begin(session);
	if (first) {
		char detail[DETAIL_BYTES];

		memcpy(detail, session->detail, sizeof(detail));
		FOR_SOURCES(source, drop)
			source->drop(session);
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
