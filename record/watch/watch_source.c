/* SPDX-License-Identifier: MIT */
/* Watches as a source: through an agent, or from outside where there is none. */
#include "record/probe/probes.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/session/unrecorded.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/figures.h"
#include "record/watch/later.h"
#include "record/watch/locals.h"
#include "record/watch/outside.h"
#include "record/watch/watching.h"
#include "record/watch/watches.h"
#include "record/watch/watching_own.h"
#include "target/process/target.h"

#include <string.h>
#include <waymark/error.h>

static int owns(const struct spec *spec)
{
	return spec->watch != NULL;
}

static int attach(struct wm_session *session, pid_t pid, int error)
{
	if (error ? !outside_serves(session, error) : !outside_is_all(session))
		return 1;
	return outside_attach(session, pid, error);
}

static int launch(struct wm_session *session, const char *path, char *const argv[], int error)
{
	if (error ? !outside_serves(session, error) : !outside_is_all(session))
		return 0;
	return outside_launch(session, path, argv, error);
}

static int message(struct wm_session *session, struct process *process,
		   const struct link_message *message)
{
	struct control_watch_table table;
	struct control_watch_lost lost;

	switch (message->type) {
	case CONTROL_WATCH_TABLE:
		if (message->bytes < sizeof(table))
			return -WM_E_PROTOCOL;
		memcpy(&table, message->body, sizeof(table));
		process->kept_at = table.kept_at;
		live_keep_at(session, process);
		return watching_table(process, message->fd, table.bytes);
	case CONTROL_WATCH_LOST:
		if (message->bytes < sizeof(lost))
			return -WM_E_PROTOCOL;
		memcpy(&lost, message->body, sizeof(lost));
		watching_lost(session, process, lost.error);
		return 0;
	default:
		return 1;
	}
}

static int take(struct wm_session *session, struct process *process)
{
	int count = 0, err = outside_pump(session, process, &count);

	if (err == -WM_E_GONE) {
		/* take its last hits before the store is drained for the last time */
		watching_end(session, process);
	} else if (err) {
		watching_lost(session, process, err);
		process_hang_up(process, -WM_E_GONE);
	}
	return count;
}

static int module_changed(struct wm_session *session, struct process *process,
			  const struct control_module *module, const char *path)
{
	(void)path;
	return module->gone ? watching_module_gone(session, process, module->base)
			    : later_module_came(session, process, module->base);
}

static void go(struct process *process)
{
	if (process->outside)
		outside_go(process);
}

static void forget(struct process *process)
{
	watching_drop(process);
	outside_free(process);
}

static int quiet(struct wm_session *session, struct process *process)
{
	watching_end(session, process);
	return 0;
}

/* ---- changing ---- */

static int wants_missing(const struct finding *finding, size_t spec)
{
	return !watching_has(finding->process, spec);
}

/* End what has a spec that is not in the list any more. What shares that is armed again. */
static void end_removed(struct wm_session *session, struct process *process)
{
	const struct spec_list *specs = session->specs;
	struct watching *next;

	for (struct watching *w = process->watching; w; w = next) {
		int is_removed = 0;

		next = w->next;
		for (unsigned int i = 0; i < w->count; i++)
			is_removed |= specs->all[w->all[i].spec].is_removed;
		if (is_removed)
			watching_end_one(session, process, w, 0);
	}
	for (size_t i = 0; i < specs->count; i++)
		if (specs->all[i].is_removed && locals_has(process->watch.locals, i)) {
			locals_end(process->watch.locals, session, process, 0);
			process->watch.locals = NULL;
		}
}

/* From outside one object has all watches. */
static int check_fixed(struct wm_session *session, const struct spec *specs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (specs[i].watch && specs[i].watch->options.is_outside)
			return session_fail(session, -WM_E_SPEC_FIXED, "%s", specs[i].text);
	for (const struct process *p = session->processes; p; p = p->next)
		if (p->outside && p->state < PROCESS_HUNG_UP)
			return session_fail(session, -WM_E_SPEC_FIXED,
					    "process %d is watched from outside", (int)p->pid);
	return 0;
}

static int change_one(struct wm_session *session, struct process *process,
		      const struct source_change *change)
{
	struct finding finding = { .session = session,
				   .process = process,
				   .wants = wants_missing,
				   .must = session->specs->all + change->first };
	int err;

	end_removed(session, process);
	if (!spec_count(session->specs, SPEC_OF(watch)))
		return 0;
	err = watching_pass(&finding);
	if (!err && finding.late && finding.late >= finding.must)
		err = session_fail(session, -WM_E_WATCH_LOCAL_LATER, "%s", finding.late->text);
	/* an ending process needs no watch; it loses its memory before it is dead */
	return err == -WM_E_GONE || (err && !target_has_memory(process->pid)) ? 0 : err;
}

static int change(struct wm_session *session, const struct source_change *change)
{
	const struct spec *fresh = session->specs->all + change->first;
	size_t count = session->specs->count - change->first, watches = 0;
	int err = check_fixed(session, change->gone, change->gone_count);

	if (!err)
		err = check_fixed(session, fresh, count);
	if (!err)
		err = live_keep_ready(session);
	for (size_t i = 0; i < count; i++)
		watches += owns(&fresh[i]);
	/* the first ones need libc's guards (abi/detour.h) */
	if (!err && watches && watches == spec_count(session->specs, SPEC_OF(watch)))
		err = probe_replace(session);
	for (struct process *p = session->processes; p && !err; p = p->next)
		if (process_is_armed(p))
			err = change_one(session, p, change);
	return err;
}

/* In the last folder: a process's hits are counted when it ends. */
static void results(struct wm_session *session)
{
	if (session->running)
		return;
	figures_write(session->watched, session->writer);
}

static void release(struct wm_session *session)
{
	watched_list_release(session->watched);
}

const struct source watch_source = {
	.owns = owns,
	.has_agent = 1,
	.change = change,
	.arm = watching_arm,
	.attach = attach,
	.launch = launch,
	.welcome = later_welcome,
	.attend = later_attend,
	.message = message,
	.take = take,
	.module = module_changed,
	.go = go,
	.forget = forget,
	.quiet = quiet,
	.results = results,
	.findings = watch_findings,
	.release = release,
};
