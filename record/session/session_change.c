/* SPDX-License-Identifier: MIT */
/*
 * Change what a running session records: the difference of two sets of specs. A spec that is
 * removed leaves its place in the list, which results and ids count by; it is of no source then.
 * Where a new spec can't be armed, the list is put back, and each source arms by that.
 */
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/spec/spec.h"
#include "target/process/call.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

/* Which sources take part: also while the change is undone, when a removed spec is in no list. */
static void find_affected(struct source_change *change, const struct spec_list *specs)
{
	for (size_t s = 0; s < SOURCES; s++) {
		for (size_t i = 0; i < change->gone_count; i++)
			change->is_affected[s] |= sources[s]->owns(&change->gone[i]);
		for (size_t i = change->first; i < specs->count; i++)
			change->is_affected[s] |= sources[s]->owns(&specs->all[i]);
	}
}

/*
 * Whether processes have agents, or are to have them when they come. Where no spec needed one when
 * they came, they are without.
 */
static int has_agents(const struct wm_session *session, const struct source_change *change)
{
	for (const struct process *p = session->processes; p; p = p->next)
		if (!p->outside && !p->is_kernel)
			return 1;
	for (size_t i = 0; i < change->gone_count; i++)
		if (source_of(&change->gone[i])->has_agent)
			return 1;
	for (size_t i = 0; i < change->first; i++) {
		const struct source *source = source_of(&session->specs->all[i]);

		if (source && source->has_agent)
			return 1;
	}
	return 0;
}

/* Whether a source that is affected can't change; so named before anything is touched. */
static int check_sources(struct wm_session *session, const struct source_change *change)
{
	for (size_t i = 0; i < SOURCES; i++)
		if (!sources[i]->change && change->is_affected[i])
			return session_fail(session, -WM_E_SPEC_FIXED, "a trail");
	for (size_t i = change->first; i < session->specs->count; i++)
		if (source_of(&session->specs->all[i])->has_agent && !has_agents(session, change))
			return session_fail(session, -WM_E_SPEC_FIXED,
					    "%s: the recording began without an agent in a process",
					    session->specs->all[i].text);
	return 0;
}

/* Take specs from the list, into change->gone. */
static int take_out(struct wm_session *session, struct source_change *change,
		    const char *const *remove, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct spec *spec = remove[i] ? spec_find(session->specs, remove[i]) : NULL;

		if (!spec)
			return session_fail(session, -ENOENT, "%s", remove[i] ? remove[i] : "");
		change->gone[change->gone_count++] = spec_take_out(spec);
	}
	return 0;
}

static int put_in(struct wm_session *session, const char *const *add, size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = session_spec_add(session, add[i]);
	return err;
}

/* Undo the change of the list. The specs that were new are in change->gone then. */
static void put_back(struct spec_list *list, struct source_change *change)
{
	for (size_t i = 0; i < change->gone_count; i++)
		spec_put_back(list, &change->gone[i]);
	change->gone_count = 0;
	for (size_t i = change->first; i < list->count; i++)
		change->gone[change->gone_count++] = spec_take_out(&list->all[i]);
	change->first = list->count;
}

/* Arm by the list as it is now. */
static int change_sources(struct wm_session *session, const struct source_change *change)
{
	int err = 0;

	for (size_t i = 0; i < SOURCES && !err; i++)
		if (change->is_affected[i])
			err = sources[i]->change(session, change);
	/* its module may come */
	return err ? err
		   : session_fail_unmatched(session, change->first,
					    session->options.allow_unmatched ? -WM_E_NO_MODULE : 0);
}

/* In the trace: from when on, and within what time processes had either. */
static int keep(struct wm_session *session, const struct source_change *change, uint64_t begin_ns,
		const char *const *add, size_t added)
{
	const struct process *process = NULL; /* the first in the trace stands for all */
	size_t count = added > change->gone_count ? added : change->gone_count;
	int err = 0;

	for (const struct process *p = session->processes; p; p = p->next)
		process = p->trace >= 0 ? p : process;
	for (size_t i = 0; i < count && !err && session->writer && process; i++)
		err = trace_change_add(session->writer, process->trace,
				       &(struct trace_change){
					       .from = i < change->gone_count ? change->gone[i].text
									      : "",
					       .to = i < added ? add[i] : "",
					       .begin_ns = session_wall_ns(session, begin_ns),
					       .gap_ns = ticks_monotonic_ns() - begin_ns,
				       });
	return err;
}

/*
 * was_armed: each source arms again, also after another's error; the trace is to have it, too,
 * since hits may be missing in that time.
 */
static void undo(struct wm_session *session, struct source_change *change, int was_armed,
		 const char *const *remove, size_t remove_count)
{
	uint64_t begin_ns = ticks_monotonic_ns();
	char detail[DETAIL_BYTES];

	memcpy(detail, session->detail, sizeof(detail));
	put_back(session->specs, change);
	if (was_armed) {
		for (size_t i = 0; i < SOURCES; i++)
			if (change->is_affected[i])
				sources[i]->change(session, change);
		keep(session, change, begin_ns, remove, remove_count);
	}
	memcpy(session->detail, detail, sizeof(detail));
	/* a watch that was armed has results, which are kept by its place */
	for (size_t i = change->gone_count; i-- && !(was_armed && change->gone[i].watch);)
		spec_drop(session->specs);
}

int wm_session_change(struct wm_session *session, const char *const *add, size_t add_count,
		      const char *const *remove, size_t remove_count)
{
	struct session_call call SESSION_CALL = session_call_begin();
	struct source_change change = { 0 };
	uint64_t begin_ns;
	int kept, err = (add || !add_count) && (remove || !remove_count)
				? session_call_refused(session)
				: -EINVAL;

	if (err)
		return err;
	if (!session->running)
		return session_fail(session, -EINVAL, "the session does not run");
	change.gone = calloc(add_count + remove_count + 1, sizeof(*change.gone));
	if (!change.gone)
		return -ENOMEM;
	session->detail[0] = 0;
	session->in_step++; /* keeps session_step() from freeing processes */
	change.first = session->specs->count;
	err = take_out(session, &change, remove, remove_count);
	if (!err)
		err = put_in(session, add, add_count);
	find_affected(&change, session->specs);
	if (!err)
		err = check_sources(session, &change);
	if (err) {
		undo(session, &change, 0, NULL, 0);
	} else {
		begin_ns = ticks_monotonic_ns();
		err = change_sources(session, &change);
		kept = keep(session, &change, begin_ns, add, add_count);
		if (err)
			undo(session, &change, 1, remove, remove_count);
		else if (kept)
			err = session_fail(session, kept, "%s", session->dir ? session->dir : "");
	}
	session->in_step--;
	for (size_t i = 0; i < change.gone_count; i++) {
		change.gone[i].text = NULL; /* the list's */
		spec_release(&change.gone[i]);
	}
	free(change.gone);
	session_pollable_update(session);
	return err;
}
