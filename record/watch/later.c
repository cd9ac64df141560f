/* SPDX-License-Identifier: MIT */
#include "record/watch/later.h"

#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/locals.h"
#include "record/watch/watches.h"
#include "record/watch/watching.h"
#include "record/watch/watching_own.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>

#define OWNERS_LOOK_NS 50000000u

/* ---- which specs are wanted ---- */

/* In a newly executed program, an address from the one before is meaningless. */
static int wants_executed(const struct finding *finding, size_t spec)
{
	const struct watch_expr *expr = finding->session->specs->all[spec].watch;

	return expr->name || expr->module;
}

/*
 * A forked child searches only for variables of its first thread; it gets the rest from its parent.
 */
static int wants_forked(const struct finding *finding, size_t spec)
{
	return finding->session->specs->all[spec].watch->options.thread == WATCH_THREAD_MAIN;
}

/* Specs that name the new library, or were found in it before. */
static int wants_loaded(const struct finding *finding, size_t spec)
{
	const struct watch_expr *expr = finding->session->specs->all[spec].watch;
	const struct watched_list *list = finding->session->watched;
	const char *library = spec < list->count ? list->all[spec].library : NULL;

	if (library && !strcmp(library, finding->came))
		return 1;
	return expr->module && expression_takes(expr, finding->came, &finding->came_aliases);
}

/* The parent that a forked child is a copy of; NULL: unknown by now, or without watches. */
static const struct process *parent_of(const struct wm_session *session,
				       const struct process *process)
{
	uint32_t number = PROBE_SET_NUMBER(process->inherited.set);

	if (!process->hello.forked || !number)
		return NULL;
	for (const struct process *p = session->processes; p; p = p->next)
		if (p != process && p->number == number)
			return p->watching || p->watch.locals ? p : NULL;
	return NULL;
}

/* ---- what is to be done ---- */

int later_welcome(struct wm_session *session, struct process *process)
{
	process->watch.is_new = session->running && spec_count(session->specs, SPEC_OF(watch));
	return process->watch.is_new;
}

int later_module_came(struct wm_session *session, struct process *process, uint64_t base)
{
	if (!session->running || !spec_count(session->specs, SPEC_OF(watch)))
		return 0;
	return watch_state_note_module(&process->watch, base) ? -ENOMEM : 1;
}

/* Count a process that continues with some watches missing; keep the first one's error. */
static void note_unwatched(struct wm_session *session, struct process *process, int err)
{
	struct watched_list *list = session->watched;

	if (process->watch.is_noted)
		return;
	process->watch.is_noted = 1;
	if (list->unwatched++)
		return;
	list->unwatched_error = err;
	snprintf(list->unwatched_detail, sizeof(list->unwatched_detail), "pid %d: %.200s",
		 (int)process->pid, session->detail);
}

/*
 * The child's stack is a copy of its parent's. Its frames are not watched: note each local
 * variable.
 */
static void note_locals(struct wm_session *session, struct process *process,
			const struct locals *parents)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (locals_has(parents, i)) {
			snprintf(session->detail, sizeof(session->detail), "%s",
				 session->specs->all[i].text);
			note_unwatched(session, process, -WM_E_WATCH_LOCAL_FORK);
		}
}

static int pass(struct finding *finding)
{
	int err;

	finding->session->detail[0] = 0;
	err = watching_pass(finding);
	if (!err && finding->late) {
		snprintf(finding->session->detail, sizeof(finding->session->detail), "%s",
			 finding->late->text);
		note_unwatched(finding->session, finding->process, -WM_E_WATCH_LOCAL_LATER);
	} else if (err && err != -WM_E_GONE) {
		note_unwatched(finding->session, finding->process, err);
	}
	return err == -ENOMEM ? err : 0;
}

static int attend_new(struct wm_session *session, struct process *process)
{
	struct finding finding = { .session = session, .process = process };
	int err = 0;

	/*
	 * wait for all its answers without holding up others; its markers' errors do not matter
	 * here
	 */
	if (process_pending(process))
		return 0;
	process->error = 0;
	if (session->running) {
		finding.parent = parent_of(session, process);
		finding.wants = finding.parent ? wants_forked : wants_executed;
		err = pass(&finding);
		if (finding.parent)
			note_locals(session, process, finding.parent->watch.locals);
	}
	process->watch.is_new = 0;
	if (err == -WM_E_GONE || err == -WM_E_AGENT_SILENT)
		return err;
	return session_let_go(process);
}

/*
 * Get a module's path, "" if it is gone, and its path by the loader. Returns whether it has Go
 * code.
 */
static int look_at(const struct process *process, uint64_t base, char path[PATH_MAX],
		   char link[PATH_MAX])
{
	struct loaded_list list;
	int is_go = 0;

	*path = *link = 0;
	if (!loaded_read(&list, process->pid))
		for (size_t i = 0; i < list.count; i++) {
			if (list.all[i].base != base)
				continue;
			snprintf(path, PATH_MAX, "%s", list.all[i].path);
			if (list.all[i].aliases.link)
				snprintf(link, PATH_MAX, "%s", list.all[i].aliases.link);
			is_go = loaded_is_go(&list, &list.all[i]);
			break;
		}
	loaded_release(&list);
	return is_go;
}

/*
 * Before a new module's code runs: if it has Go code, end all watches; else arm those it has places
 * for.
 */
static int attend_module(struct wm_session *session, struct process *process, uint64_t base)
{
	struct finding finding = { .session = session, .process = process, .wants = wants_loaded };
	char path[PATH_MAX], link[PATH_MAX];
	int is_go = look_at(process, base, path, link), wants = 0;

	if (is_go && (process->watching || process->watch.locals))
		watching_lost(session, process, -WM_E_WATCH_GO);
	process->watch.is_barred |= is_go;
	finding.came = path;
	finding.came_aliases.link = link;
	for (size_t i = 0; i < session->specs->count && *path && !process->watch.is_barred; i++)
		wants |= session->specs->all[i].watch && wants_loaded(&finding, i) &&
			 !watching_has(process, i);
	return wants ? pass(&finding) : 0;
}

/* Only the modules that are noted now: a process that loads without end holds up no others. */
static int attend_modules(struct wm_session *session, struct process *process)
{
	struct watch_state *state = &process->watch;
	int err = 0;

	for (size_t left = state->module_count; left && !err; left--) {
		if (session->running)
			err = attend_module(session, process, state->modules[0]);
		memmove(state->modules, state->modules + 1,
			--state->module_count * sizeof(*state->modules));
		if (!err)
			err = process_request(process, CONTROL_SEEN, NULL, 0);
	}
	return err;
}

static void look_for_owners(struct wm_session *session, struct process *process)
{
	uint64_t now_ns = ticks_monotonic_ns();
	struct watching *next;

	if (now_ns < process->watch.looked_ns + OWNERS_LOOK_NS)
		return;
	process->watch.looked_ns = now_ns;
	for (struct watching *w = process->watching; w; w = next) {
		next = w->next;
		if (thread_has_ended(&w->bond.owner, process->pid))
			watching_end_one(session, process, w, -WM_E_WATCH_THREAD_OVER);
	}
}

int later_attend(struct wm_session *session, struct process *process)
{
	int err = 0;

	if (process->is_dropped && process->state == PROCESS_HUNG_UP)
		watching_end(session, process);
	if (session->watched->is_arming || session->watched->is_attending ||
	    process->state >= PROCESS_HUNG_UP || process->is_pumped)
		return 0;
	session->watched->is_attending = 1;
	if (process->watching)
		look_for_owners(session, process);
	if (process->watch.is_new)
		err = attend_new(session, process);
	if (!err && process->watch.module_count)
		err = attend_modules(session, process);
	session->watched->is_attending = 0;
	return err;
}
