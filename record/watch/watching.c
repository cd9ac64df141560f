/* SPDX-License-Identifier: MIT */
#include "record/watch/watching_own.h"

#include "record/spec/spec.h"
#include "record/watch/follow_serve.h"
#include "record/watch/locals.h"
#include "record/watch/outside.h"
#include "record/watch/pending_hits.h"
#include "record/watch/watches.h"
#include "record/watch/watching.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <waymark/error.h>

/* since 5.18 a hit while SIGTRAP is blocked does not kill the program (send_sig_perf()) */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 18
#define NOBODY_KNOWS UINT64_MAX

/* ---- which specs are wanted ---- */

static size_t count_wanted(const struct wm_session *session, const struct process *process)
{
	size_t count = 0;

	for (size_t i = 0; i < session->specs->count; i++)
		count += outside_wants(process, session->specs->all[i].watch) != 0;
	return count;
}

static int kernel_is_new_enough(void)
{
	struct utsname name;
	int major, minor;

	if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2)
		return 0;
	return major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR);
}

int watching_table(struct process *process, int fd, uint64_t bytes)
{
	struct watch_state *state = &process->watch;

	/* a new table comes after all watches of the old one were dropped, and during a pass */
	if (!state->is_arming || process->watching || state->locals)
		return 0;
	return watch_state_map(state, fd, bytes);
}

/* ---- the kernel ---- */

void watched_value(const struct watching *watching, const struct watched *one)
{
	struct watch_row *row = &watching->table->rows[one->number];
	uint64_t value = 0;
	int err = target_memory(watching->pid, one->address, &value, one->bytes);

	row->last.value = value;
	row->last.ticks = err ? NOBODY_KNOWS : 0;
}

/*
 * Read the values and open the gates. All events are open but disabled, and the program is stopped
 * if possible, so the values don't change meanwhile.
 */
static int settle(void *data, uint8_t generation)
{
	struct watching *watching = data;

	if (watching->follow)
		return follow_settle(watching, generation);
	for (unsigned int i = 0; i < watching->count; i++) {
		const struct watched *one = &watching->all[i];

		watched_value(watching, one);
		__atomic_store_n(&watching->table->rows[one->number].gate,
				 WATCH_GATE(generation, WATCH_ON), __ATOMIC_RELEASE);
	}
	return 0;
}

/* The kernel event for a piece. */
static struct event_source source_of_piece(const struct watching *watching,
					   const struct watched *one, enum watch_kind kind,
					   const char *text)
{
	return (struct event_source){
		.kind = one->is_pointer ? EVENT_WRITE : (enum event_kind)kind,
		.bytes = kind == WATCH_EXECUTE ? 0 : one->bytes,
		.address = one->address,
		/* from outside there is no signal */
		.sig_data = watching->magic ? WATCH_COOKIE(watching->magic, one->number, 0) : 0,
		.what = text,
	};
}

static int arm(struct finding *finding, struct watching *watching)
{
	struct wm_session *session = finding->session;
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request = {
		.scope = EVENT_PROCESS,
		.flags = finding->process->outside ? outside_flags(session, finding->process)
						   : EVENT_SIGNAL,
		.pid = watching->pid,
		.sources = sources,
		.source_count = watching->count,
		.ledger = session_ledger(session),
		.settle = settle,
		.settle_data = watching,
	};
	char words[512] = "";
	struct detail detail = { words, sizeof(words) };
	int err = watching->plan.pointers ? follow_begin(watching) : 0;

	if (err)
		return err;
	for (unsigned int i = 0; i < watching->count; i++) {
		const struct spec *spec = &session->specs->all[watching->all[i].spec];

		sources[i] = source_of_piece(watching, &watching->all[i], spec->watch->kind,
					     spec->text);
	}
	err = perf_object_new(&watching->object, &request, detail);
	if (!err)
		err = perf_object_arm(watching->object, detail);
	if (!err && watching->follow)
		err = follow_serve(watching);
	if (!err && finding->process->outside)
		err = outside_armed(finding->process, watching->object, watching->table,
				    request.flags);
	if (err && err != -WM_E_GONE)
		return session_fail(session, err, "%s",
				    words[0] ? words
					     : session->specs->all[watching->all[0].spec].text);
	return err;
}

/* After all others: local variables use the registers that are left. */
static int arm_locals(struct finding *finding)
{
	char words[512] = "";
	int err = locals_arm(finding->locals, finding->process->pid, finding->process->watch.table,
			     session_ledger(finding->session),
			     (struct detail){ words, sizeof(words) });

	return err && err != -WM_E_GONE ? session_fail(finding->session, err, "%s", words) : err;
}

static void note_locals(struct wm_session *session, const struct locals *locals)
{
	for (size_t i = 0; i < session->specs->count; i++)
		if (locals_has(locals, i)) {
			locals_describe(locals, i, watched_result(session, i));
			session->specs->all[i].matches++;
		}
}

static void note_armed(struct wm_session *session, const struct process *process,
		       const struct watching *watching)
{
	struct event_coverage coverage;
	unsigned int threads = 0;

	follow_lock(watching->follow);
	if (!perf_object_coverage(watching->object, &coverage)) {
		threads = coverage.opened + coverage.inherited;
		perf_coverage_release(&coverage);
	}
	follow_unlock(watching->follow);
	for (unsigned int i = 0; i < watching->count; i++) {
		struct watched_spec *result = watched_result(session, watching->all[i].spec);

		if (i && watching->all[i].spec == watching->all[i - 1].spec)
			continue;
		result->processes++;
		result->threads = threads;
		outside_note(session, process, result);
		if (watching->follow)
			follow_describe(watching->follow, result);
		session->specs->all[watching->all[i].spec].matches++;
	}
}

static void unask(struct process *process, const struct watching *watching)
{
	for (unsigned int i = 0; i < watching->count && process->link.fd >= 0; i++) {
		struct control_unwatch one = { watching->all[i].number, watching->all[i].number };
		struct iovec part = { &one, sizeof(one) };

		process_request(process, CONTROL_UNWATCH, &part, 1);
	}
}

static void free_one(struct watching *watching)
{
	follow_release(watching->follow);
	perf_object_release(watching->object);
	for (unsigned int i = 0; i < EVENT_SOURCES_MAX; i++)
		free(watching->asked[i]);
	free(watching);
}

void watching_drop(struct process *process)
{
	while (process->watching) {
		struct watching *next = process->watching->next;

		free_one(process->watching);
		process->watching = next;
	}
	locals_release(process->watch.locals);
	watch_state_release(&process->watch);
}

static int find_and_arm(struct finding *finding)
{
	int err = 0;

	if (finding->parent)
		err = watch_finding_ask_parents(finding);
	if (!err)
		err = watch_finding_all(finding);
	if (!err && !finding->process->outside && !finding->process->watch.has_modules) {
		err = process_modules_note(finding->session, finding->process, &finding->list);
		finding->process->watch.has_modules = !err;
	}
	watch_finding_close(finding);
	if (!err && (finding->fresh || finding->locals))
		err = watch_finding_wait(finding);
	for (struct watching *w = finding->fresh; w && !err; w = w->next)
		err = arm(finding, w);
	if (!err && finding->locals)
		err = arm_locals(finding);
	return err;
}

/* On success give the pass's objects to the process; else undo all that the pass did. */
static int settle_pass(struct finding *finding, int err)
{
	struct process *process = finding->process;
	struct watching **end = &process->watching;

	while (*end)
		end = &(*end)->next;
	while (finding->fresh) {
		struct watching *one = finding->fresh;

		finding->fresh = one->next;
		one->next = NULL;
		if (err) {
			follow_stop(one->follow);
			if (one->object)
				perf_object_disarm(one->object);
			unask(process, one);
			free_one(one);
		} else {
			*end = one;
			end = &one->next;
			note_armed(finding->session, process, one);
		}
	}
	if (err && process->outside)
		outside_unask(process);
	if (err) {
		locals_quiet(finding->locals);
		locals_unask(finding->locals, process);
		locals_release(finding->locals);
	} else if (finding->locals) {
		process->watch.locals = finding->locals;
		note_locals(finding->session, finding->locals);
	}
	return err;
}

static void end_in(struct wm_session *session, struct process *process, uint64_t base)
{
	struct watching *next;

	locals_module_gone(process->watch.locals, session, base);
	for (struct watching *w = process->watching; w; w = next) {
		next = w->next;
		if (w->bond.module == base)
			watching_end_one(session, process, w, 0);
	}
}

/* End the watches in modules that were unloaded during the pass. */
static void settle_gone(struct wm_session *session, struct process *process)
{
	struct watch_state *state = &process->watch;

	for (size_t i = 0; i < state->gone_count; i++)
		end_in(session, process, state->gone[i]);
	state->gone_count = 0;
}

int watching_pass(struct finding *finding)
{
	struct watch_state *state = &finding->process->watch;
	struct wm_session *session = finding->session;
	int err;

	if (!finding->process->outside && !kernel_is_new_enough())
		return session_fail(session, -WM_E_WATCH_TRAP, "Linux %d.%d or later is needed",
				    KERNEL_MAJOR, KERNEL_MINOR);
	while (!state->magic)
		if (getrandom(&state->magic, sizeof(state->magic), GRND_NONBLOCK) < 0)
			state->magic = (uint32_t)ticks_monotonic_ns();
	state->is_arming = session->watched->is_arming = 1;
	state->gone_count = 0;
	err = settle_pass(finding, find_and_arm(finding));
	state->is_arming = session->watched->is_arming = 0;
	/* do what was put off during the pass */
	settle_gone(session, finding->process);
	if (state->lost)
		watching_lost(session, finding->process, state->lost);
	else if (state->has_ended)
		watching_end(session, finding->process);
	state->has_ended = state->lost = 0;
	return err;
}

static int arm_wanted(struct wm_session *session, struct process *process)
{
	struct finding finding = { .session = session, .process = process };

	return count_wanted(session, process) ? watching_pass(&finding) : 0;
}

int watching_arm(struct wm_session *session, struct process *process)
{
	struct process *beside = NULL;
	int err = outside_beside(session, process, arm_wanted(session, process), &beside);

	if (!beside)
		return err;
	beside->arming = PROCESS_ARMED; /* UNARMED -> ARMED */
	err = arm_wanted(session, beside);
	if (!err) {
		session->detail[0] = 0;
		return 0;
	}
	/* let session_step() forget it */
	beside->invited = 0;
	beside->arming = PROCESS_QUIET; /* any -> QUIET */
	process_hang_up(beside, -WM_E_GONE);
	return err;
}

/* ---- ending ---- */

static int is_told(void *data)
{
	return watching_is_told(data);
}

void watching_end_one(struct wm_session *session, struct process *process,
		      struct watching *watching, int why)
{
	struct watching **at = &process->watching;

	follow_stop(watching->follow);
	perf_object_quiet(watching->object);
	if (process->outside)
		outside_ended(session, process);
	else
		pending_hits_wait(process, is_told, watching);
	for (unsigned int i = 0; i < watching->count; i++) {
		struct watched_spec *result = watched_result(session, watching->all[i].spec);

		watching->table->rows[watching->all[i].number].gate = WATCH_OFF;
		watched_count(watching, i, &result->counts);
		if (!i && watching->follow)
			follow_describe(watching->follow, result);
		result->counts.starved += perf_object_starved(watching->object, i);
		result->lost = why ? why : result->lost;
	}
	perf_object_disarm(watching->object);
	unask(process, watching);
	while (*at != watching)
		at = &(*at)->next;
	*at = watching->next;
	free_one(watching);
}

static void end_all(struct wm_session *session, struct process *process, int why)
{
	if (process->watch.is_arming) {
		process->watch.has_ended = 1;
		process->watch.lost = why ? why : process->watch.lost;
		return;
	}
	locals_end(process->watch.locals, session, process, why);
	process->watch.locals = NULL;
	while (process->watching)
		watching_end_one(session, process, process->watching, why);
}

void watching_end(struct wm_session *session, struct process *process)
{
	end_all(session, process, process->is_dropped);
}

void watching_lost(struct wm_session *session, struct process *process, int why)
{
	end_all(session, process, why < 0 ? why : -WM_E_PROTOCOL);
}

int watching_module_gone(struct wm_session *session, struct process *process, uint64_t base)
{
	end_in(session, process, base);
	/* the objects of a running pass are not in the process's list yet */
	return process->watch.is_arming ? watch_state_note_gone(&process->watch, base) : 0;
}
