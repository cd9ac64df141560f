/* SPDX-License-Identifier: MIT */
#include "record/probe/probes.h"

#include "base/array.h"
#include "base/name_match.h"
#include "base/predicate.h"
#include "record/session/patience.h"
#include "record/session/process.h"
#include "record/session/sources.h"
#include "record/trail/live.h"
#include "target/process/loaded.h"
#include "trace/schema.h"
#include "trace/writer.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <waymark/error.h>

#define AGENT_NAME "libwaymark-agent.so"
#define HELD_MAX 1000000
#define NAME_BYTES 512
#define GO_WAIT_NS (CONTROL_GO_WAIT_MS * UINT64_C(1000000))
#define REFUSALS_MAX 1000000
#define REFUSED_BYTES_MAX (1u << 20) /* of names, for each process: an agent may be hostile */
#define REFUSED_TEXT_MAX 2048

/* A module that runs without its probes until they are armed. */
struct late {
	uint64_t base; /* of the module; 0: whatever is found */
	uint64_t begin_ns;
};

/* One look at a process's modules. */
struct pass {
	struct wm_session *session;
	struct process *process;
	const struct late *late; /* NULL: what is found is not late */
	/* the first plan opens them all: modules have information about each other */
	struct loaded_list list;
};

/* ---- what was handled in a process ---- */

static struct probed_module *module_find(const struct probed *probed, const struct loaded *loaded)
{
	for (size_t i = 0; i < probed->count; i++)
		if (loaded_id_is(&probed->modules[i].id, &loaded->id))
			return &probed->modules[i];
	return NULL;
}

/*
 * The loader maps a library before it adds it to its list. A spec may match the name in that list.
 * So look again at a library that was not listed yet.
 */
static int module_is_done(const struct probed *probed, const struct loaded *loaded)
{
	const struct probed_module *module = module_find(probed, loaded);

	return module && !module->is_due && (module->is_done || !loaded->is_listed);
}

/*
 * Note a module. `is_done`: its places are sent, or no spec applies to any of its names. Returns
 * it, valid until the next one is noted; NULL: no memory.
 */
static struct probed_module *module_note(struct probed *probed, const struct loaded *loaded,
					 int is_done)
{
	struct probed_module *module = module_find(probed, loaded);

	if (!module) {
		if (array_grow(&probed->modules, &probed->room, probed->count + 1,
			       sizeof(*probed->modules)))
			return NULL;
		module = &probed->modules[probed->count++];
		module->came_ns = 0;
	}
	*module = (struct probed_module){ .id = loaded->id,
					  .base = loaded->base,
					  .set = probed->set + 1,
					  .came_ns = module->came_ns,
					  .is_done = is_done };
	return module;
}

/* The module that is noted at that base; NULL: none. */
static struct probed_module *module_at(const struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			return &probed->modules[i];
	return NULL;
}

/* It was unloaded. */
static void module_forget(struct probed *probed, uint64_t base)
{
	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base == base)
			probed->modules[i--] = probed->modules[--probed->count];
}

/* Copies the path. 0 or -ENOMEM. */
static int gap_add(struct probed *probed, const struct probed_gap *gap)
{
	char *path = strdup(gap->path);

	if (!path || array_grow(&probed->gaps, &probed->gap_room, probed->gap_count + 1,
				sizeof(*probed->gaps))) {
		free(path);
		return -ENOMEM;
	}
	probed->gaps[probed->gap_count] = *gap;
	probed->gaps[probed->gap_count++].path = path;
	return 0;
}

static void gap_remove(struct probed *probed, size_t index)
{
	free(probed->gaps[index].path);
	probed->gaps[index] = probed->gaps[--probed->gap_count];
}

void probed_release(struct probed *probed)
{
	free(probed->modules);
	while (probed->gap_count)
		gap_remove(probed, 0);
	free(probed->gaps);
	*probed = (struct probed){ 0 };
}

/* ---- plans ---- */

/* Whether the module has the code that the plan is for: its file may have been written since. */
static int is_of(const struct plan *plan, const struct loaded *loaded)
{
	struct loaded_id id = loaded->id;

	id.start = plan->id.start; /* it may be loaded anywhere */
	return loaded_id_is(&plan->id, &id) && !strcmp(plan->path, loaded->path) &&
	       (plan->fd < 0 || code_version_is(&plan->version, plan->fd));
}

/* Find a plan that serves the module. The vdso is no file, but is the same in all processes. */
static struct plan *plan_find(const struct wm_session *session, const struct loaded *loaded)
{
	char name[256];

	loaded_name(loaded, name, sizeof(name));
	for (struct plan *plan = session->probes->plans; plan; plan = plan->next)
		if (is_of(plan, loaded) && plan_fits(plan, session->specs, name, &loaded->aliases))
			return plan;
	return NULL;
}

/* ---- refused probes and markers ---- */

static int refusal_order(const void *a, const void *b)
{
	const struct probe_refusal *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : left->error - right->error;
}

/* Add a refusal to the session's list. Copies it. 0 or -ENOMEM. */
static int refusal_add(struct wm_session *session, const struct probe_refusal *refusal)
{
	struct probe_refusals *list = &session->probes->refusals;
	struct probe_refusal *more;

	session->refused++;
	if (list->count >= REFUSALS_MAX)
		return 0;
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all)))
		return -ENOMEM;
	more = &list->all[list->count];
	*more = *refusal;
	more->name = strdup(refusal->name);
	more->module = strdup(refusal->module);
	more->detail = strdup(refusal->detail);
	list->count++; /* now, so that an incomplete one is freed too */
	return more->name && more->module && more->detail ? 0 : -ENOMEM;
}

static int is_plan_of(const struct plan *plan, const struct probed_module *module, uint64_t address)
{
	struct loaded_id id = module->id;

	id.start = plan->id.start;
	return loaded_id_is(&plan->id, &id) && address - module->base <= plan->last;
}

/* Find the plan with a place at this address in the process, and the module's base. NULL: none. */
static const struct plan *plan_around(const struct probes *probes, const struct probed *probed,
				      uint64_t address, uint64_t *base)
{
	const struct probed_module *module = NULL;
	const struct plan *plan = probes->plans;

	for (size_t i = 0; i < probed->count; i++)
		if (probed->modules[i].base <= address &&
		    (!module || probed->modules[i].base > module->base))
			module = &probed->modules[i];
	while (plan && module && !is_plan_of(plan, module, address))
		plan = plan->next;
	if (!plan || !module)
		return NULL;
	*base = module->base;
	return plan;
}

/* Children of one server are refused the same places: keep each `text` once. */
static int refuse_once(struct wm_session *session, struct process *process,
		       const struct probe_refusal *refusal, const char *text)
{
	struct probe_refusal *key = calloc(1, sizeof(*key));
	struct probe_refusal **there;

	if (!key)
		return -ENOMEM;
	*key = (struct probe_refusal){ .name = (char *)text, .error = refusal->error };
	if (process->refused_bytes >= REFUSED_BYTES_MAX &&
	    !tfind(key, &session->probes->refusals.index, refusal_order)) {
		session->probes->refusals.left_out++;
		free(key);
		return 0;
	}
	key->name = strdup(text);
	there = key->name ? tsearch(key, &session->probes->refusals.index, refusal_order) : NULL;
	if (there && *there == key) {
		process->refused_bytes += strlen(text) + 1;
		return refusal_add(session, refusal);
	}
	free(key->name);
	free(key);
	return there ? 0 : -ENOMEM;
}

/* The agent refused a place. 0 or -ENOMEM. */
static int place_refused(struct wm_session *session, struct process *process,
			 const struct control_refused *refused, const char *name)
{
	uint64_t base = 0;
	const struct plan *plan = plan_around(session->probes, &process->probed, refused->address,
					      &base);
	struct probe_refusal refusal = { .name = (char *)name,
					 .module = plan ? plan->path : "",
					 .detail = "",
					 .address = refused->address - base,
					 .error = refused->error,
					 .pid = process->pid };

	if (refusal.error == -WM_E_TRACED && live_is_wanted(session))
		refusal.error = -WM_E_TRAIL_STEPS; /* by our own tracer */
	return refuse_once(session, process, &refusal, name);
}

int probe_refused_marker(struct wm_session *session, struct process *process,
			 const struct control_refused *refused, const char *name,
			 const char *detail)
{
	struct probe_refusal refusal = { .name = (char *)name,
					 .module = "",
					 .detail = (char *)detail,
					 .address = refused->address,
					 .error = refused->error,
					 .pid = process->pid };
	char text[REFUSED_TEXT_MAX];

	snprintf(text, sizeof(text), "%s %s", name, detail);
	session->probes->refusals.has_markers = 1;
	return refuse_once(session, process, &refusal, text);
}

static void key_free(void *node)
{
	struct probe_refusal *key = node;

	free(key->name);
	free(key);
}

static void refusals_release(struct probe_refusals *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->all[i].name);
		free(list->all[i].module);
		free(list->all[i].detail);
	}
	free(list->all);
	tdestroy(list->index, key_free);
}

/* ---- breakpoints of other tools ---- */

/* SUBSYS:EVENT of an id; "" if the process did not declare it. The caller frees it. */
static char *name_of(const struct process *process, uint32_t id)
{
	const struct trace_class *class = schema_find(process->schema, id);
	size_t suffix = 0;

	if (!class)
		return strdup("");
	if (class->kind == 'b' || class->kind == 'e')
		suffix = class->kind == 'b' ? strlen(":begin") : strlen(":end");
	return strndup(class->name, class->name_bytes - suffix);
}

/* Convert a CLOCK_MONOTONIC time to the wall clock. */
static uint64_t realtime_ns(uint64_t monotonic_ns)
{
	return ticks_clock_ns(CLOCK_REALTIME) - ticks_monotonic_ns() + monotonic_ns;
}

static int foreign_trace(struct wm_session *session, const struct process *process,
			 struct probe_foreign *foreign)
{
	struct trace_gap about = { .name = foreign->name, .cause = "overwritten" };

	if (process->trace < 0 || !session->writer)
		return 0;
	/*
	 * both times use the clock offset from the begin, so setting the wall clock shifts neither
	 */
	if (!foreign->offset_ns)
		foreign->offset_ns = realtime_ns(0);
	about.begin_ns = foreign->begin_ns + foreign->offset_ns;
	about.end_ns = foreign->end_ns ? foreign->end_ns + foreign->offset_ns : 0;
	return trace_gap_add(session->writer, process->trace, &about);
}

static int foreign_add(struct wm_session *session, const struct process *process,
		       const struct control_foreign *foreign)
{
	struct probes *probes = session->probes;
	struct probe_foreign *added;

	if (array_grow(&probes->foreign, &probes->foreign_room, probes->foreign_count + 1,
		       sizeof(*probes->foreign)))
		return -ENOMEM;
	added = &probes->foreign[probes->foreign_count];
	*added = (struct probe_foreign){ .name = name_of(process, foreign->id),
					 .pid = process->pid,
					 .id = foreign->id,
					 .begin_ns = foreign->begin_ns };
	if (!added->name)
		return -ENOMEM;
	probes->foreign_count++;
	return foreign_trace(session, process, added);
}

static int foreign_note(struct wm_session *session, const struct process *process,
			const struct control_foreign *foreign)
{
	struct probes *probes = session->probes;

	if (!foreign->end_ns)
		return probes->foreign_count < HELD_MAX ? foreign_add(session, process, foreign)
							: 0;
	for (size_t i = probes->foreign_count; i > 0; i--) {
		struct probe_foreign *there = &probes->foreign[i - 1];

		if (there->pid == process->pid && there->id == foreign->id && !there->end_ns) {
			there->end_ns = foreign->end_ns;
			return foreign_trace(session, process, there);
		}
	}
	return 0;
}

/* Plans for other specs, and what they refused. */
static void plans_release(struct probes *probes)
{
	while (probes->plans) {
		struct plan *next = probes->plans->next;

		plan_free(probes->plans);
		probes->plans = next;
	}
	refusals_release(&probes->refusals);
	probes->refusals = (struct probe_refusals){ 0 };
	probes->wanted = 0;
}

void probes_release(struct probes *probes)
{
	plans_release(probes);
	for (size_t i = 0; i < probes->foreign_count; i++)
		free(probes->foreign[i].name);
	free(probes->foreign);
	*probes = (struct probes){ 0 };
}

/* ---- making plans ---- */

/*
 * A file that a request applies to can't be read: keep the reason. Of a process that is ending
 * nothing can be read, and that is no reason.
 */
static void keep_open_error(struct wm_session *session, const struct process *process,
			    const struct loaded *loaded)
{
	if (process_is_dead(process) || target_is_exiting(process->pid))
		return;
	for (size_t i = 0; i < session->specs->count; i++) {
		struct spec *spec = &session->specs->all[i];

		if (spec->request &&
		    code_request_takes(spec->request, loaded->path, &loaded->aliases)) {
			spec->modules++;
			spec_keep_error(spec, loaded->error, loaded->path, 0);
		}
	}
}

static int take_refusals(struct wm_session *session, pid_t pid, const struct plan *plan)
{
	int err = 0;

	for (size_t i = 0; i < plan->refused_count && !err; i++)
		err = refusal_add(session,
				  &(struct probe_refusal){ .name = plan->refused[i].name,
							   .module = plan->path,
							   .detail = plan->refused[i].detail,
							   .address = plan->refused[i].address,
							   .error = plan->refused[i].error,
							   .pid = pid });
	session->probes->wanted += plan->place_count - plan->guard_count + plan->refused_count;
	return err;
}

struct planning {
	struct pass *pass;
	const char *path;
	uint64_t total;
};

static int on_beat(size_t done, size_t total, void *data)
{
	struct planning *planning = data;
	struct session_progress progress = { planning->path, done, total };

	planning->total = total;
	return patience_beat(planning->pass->session, &progress);
}

/* Find or make the plan of a module. *plan NULL: its file can't be read. */
static int plan_of(struct pass *pass, const struct loaded *loaded, struct plan **plan)
{
	struct probes *probes = pass->session->probes;
	struct planning planning = { pass, loaded->path, 0 };
	struct code_process process;
	int err;

	*plan = plan_find(pass->session, loaded);
	if (*plan)
		return 0;
	err = loaded_open(&pass->list);
	if (err)
		return err;
	if (!loaded->module) {
		keep_open_error(pass->session, pass->process, loaded);
		return 0;
	}
	process = loaded_process(&pass->list);
	loaded->module->file->pulse = (struct code_pulse){ on_beat, &planning };
	err = plan_make(plan, pass->session->specs, loaded->module, &process, NULL);
	loaded->module->file->pulse = (struct code_pulse){ 0 };
	/* given up: of the places, at most the number is known */
	if (err == -ECANCELED)
		probes->unarmed += planning.total;
	if (!err)
		err = plan_names(pass->session->names, pass->session->specs, loaded->module);
	if (!err)
		err = take_refusals(pass->session, pass->process->pid, *plan);
	if (err) {
		plan_free(*plan);
		*plan = NULL;
		return err;
	}
	(*plan)->id = loaded->id;
	(*plan)->next = probes->plans;
	probes->plans = *plan;
	return 0;
}

/* ---- modules that come while the program runs ---- */

static int gap_trace(struct wm_session *session, const struct process *process,
		     const struct probed_gap *gap, uint64_t end_ns)
{
	struct trace_gap about = {
		.name = gap->path,
		.cause = "loaded late",
		.begin_ns = session_wall_ns(session, gap->begin_ns),
		.end_ns = end_ns ? session_wall_ns(session, end_ns) : 0,
	};

	return process->trace < 0 || !session->writer
		       ? 0
		       : trace_gap_add(session->writer, process->trace, &about);
}

/* `has_end`: its places are armed, or it is gone; else it stays open to the end. */
static int gap_end(struct wm_session *session, struct process *process, size_t index, int has_end)
{
	struct probed_gap *gap = &process->probed.gaps[index];
	uint64_t now_ns = ticks_monotonic_ns();
	int err = has_end ? gap_trace(session, process, gap, now_ns) : 0;

	if (now_ns - gap->begin_ns > session->probes->late_ns)
		session->probes->late_ns = now_ns - gap->begin_ns;
	gap_remove(&process->probed, index);
	return err;
}

/* Until so many COMMITs are answered. The agent's clock may be that of another time namespace. */
static int gap_begin(struct wm_session *session, struct process *process, uint64_t base,
		     uint64_t begin_ns, unsigned int commits, const char *path)
{
	struct probed_gap gap = { (char *)path, base, begin_ns, commits };
	uint64_t now_ns = ticks_monotonic_ns();
	int err;

	if (begin_ns < process->hello_ns || begin_ns > now_ns)
		gap.begin_ns = now_ns;
	err = gap_add(&process->probed, &gap);
	session->probes->late++;
	return err ? err : gap_trace(session, process, &gap, 0);
}

/* ---- the modules of a process ---- */

static int send_plan(struct process *process, const struct plan *plan, struct probed_module *module)
{
	unsigned char *buffer = malloc(CONTROL_BYTES_MAX);
	size_t from = 0, bytes;
	int err = buffer ? 0 : -ENOMEM;

	while (!err && (bytes = plan_write(plan, &from, module->base, module->came_ns, buffer,
					   CONTROL_BYTES_MAX - sizeof(struct wm_message)))) {
		struct iovec part = { buffer, bytes };

		err = process_request(process, CONTROL_PLACE, &part, 1);
	}
	module->places = plan->place_count - plan->guard_count;
	process->probed.pending += module->places;
	free(buffer);
	return err;
}

/* Note which conditions on the caller are for a module. */
static void callers_note(const struct spec_list *specs, const struct loaded *loaded)
{
	const char *link = loaded->aliases.link ? loaded->aliases.link : loaded->path;

	for (size_t i = 0; i < specs->count; i++) {
		const struct code_request *request = specs->all[i].request;

		for (unsigned int k = 0; request && k < request->predicate_count; k++)
			if (spec_is_on_caller(&request->predicates[k]) &&
			    (predicate_names_module(request->predicates[k].text, link) ||
			     predicate_names_module(request->predicates[k].text, loaded->path)))
				specs->all[i].callers_seen |= 1u << k;
	}
}

/* Handle new modules. Returns how many there were, or an error. */
static int see_to_modules(struct pass *pass)
{
	struct probed *probed = &pass->process->probed;
	int fresh = 0, err = 0;

	for (size_t i = 0; i < pass->list.count && !err; i++) {
		const struct loaded *loaded = &pass->list.all[i];
		struct probed_module *module;
		struct plan *plan = NULL;
		int is_wanted;

		callers_note(pass->session->specs, loaded);
		if (module_is_done(probed, loaded) ||
		    (pass->late && pass->late->base && loaded->base != pass->late->base))
			continue;
		fresh++;
		is_wanted = strcmp(name_last_part(loaded->path), AGENT_NAME) &&
			    plan_concerns(pass->session->specs, loaded->path, &loaded->aliases);
		module = module_note(probed, loaded, is_wanted || loaded->is_listed);
		if (!module)
			return -ENOMEM;
		if (pass->late && pass->late->base)
			module->came_ns = pass->late->begin_ns;
		if (!is_wanted)
			continue;
		err = plan_of(pass, loaded, &plan);
		/* planning drains, but takes no messages of the process: it is noted still */
		if (!err && plan)
			err = send_plan(pass->process, plan, module);
		if (!err && plan && module->places && pass->late)
			err = gap_begin(pass->session, pass->process, loaded->base,
					pass->late->begin_ns, probed->commits + 1, loaded->path);
	}
	return err ? err : fresh;
}

uint64_t probe_next_set(struct process *process)
{
	uint64_t first = (uint64_t)process->number << 32;

	process->probed.set = (process->probed.set > first ? process->probed.set : first) + 1;
	return process->probed.set;
}

/* If a process has changed its user, the kernel hides it from a tool without CAP_SYS_PTRACE. */
static int is_denied(int err)
{
	return err == -EACCES || err == -EPERM;
}

/* A forked child has its parent's places, or is about to: these are recorded in any case. */
static int has_parents(const struct process *process)
{
	return process->probed.count > 0;
}

/* Ignore errors of look() for a process that has ended, or is recorded in any case. */
static int look_again_error(const struct process *process, int err)
{
	return err == -WM_E_GONE || (is_denied(err) && has_parents(process)) ? 0 : err;
}

/*
 * Look at the modules once, or at those that are late. `always`: send COMMIT even if nothing is
 * new. `replaces`: nothing else stays placed.
 */
static int look(struct wm_session *session, struct process *process, const struct late *late,
		int always, int replaces)
{
	struct pass pass = { .session = session, .process = process, .late = late };
	struct control_commit commit = { .replaces = (uint32_t)replaces,
					 .watches = spec_count(session->specs, SPEC_OF(watch)) !=
						    0 };
	struct iovec part = { &commit, sizeof(commit) };
	int err, fresh = 0;

	if (patience_is_over(session))
		return 0;
	err = loaded_read(&pass.list, process->pid);

	if (err == -ESRCH)
		err = -WM_E_GONE;
	else if (is_denied(err) && !has_parents(process))
		session_fail(session, err, "pid %d: its memory may not be read", (int)process->pid);
	/* callers are in any of them */
	if (!err && spec_callers(session->specs))
		err = process_modules_note(session, process, &pass.list);
	if (!err)
		err = fresh = see_to_modules(&pass);
	loaded_release(&pass.list);
	if (err == -ECANCELED)
		return 0;
	if (err < 0 || (!fresh && !always))
		return err < 0 ? err : 0;
	process->probed.commits++;
	commit.set = probe_next_set(process);
	if (replaces)
		process->probed.since = commit.set;
	return process_request(process, CONTROL_COMMIT, &part, 1);
}

static int is_for_guards_alone(const struct spec_list *specs)
{
	return !spec_count(specs, SPEC_OF(request)) && !spec_count(specs, SPEC_OF(watch));
}

int probe_arm(struct wm_session *session, struct process *process)
{
	int err;

	if (is_for_guards_alone(session->specs) && !spec_costs(session->specs) &&
	    !spec_callers(session->specs))
		return 0;
	process->probed.is_on = 1;
	process->probed.is_followed = 0;
	err = process->probed.adopts ? 0 : look(session, process, NULL, 1, 0);
	/* without guards the agent sees a filter late, but markers and counts work */
	return is_denied(err) && is_for_guards_alone(session->specs) ? 0 : err;
}

int probe_look(struct wm_session *session, struct process *process)
{
	const struct late late = { .begin_ns = process->hello_ns };

	if (!process->probed.is_on)
		return 0;
	return look_again_error(process, look(session, process, &late, 0, 0));
}

static int committed(struct wm_session *session, struct process *process)
{
	struct probed *probed = &process->probed;
	int err = 0;

	if (probed->commits && !--probed->commits)
		probed->pending = probed->answered = 0;
	for (size_t i = probed->gap_count; i-- && !err;)
		if (probed->gaps[i].commits && !--probed->gaps[i].commits)
			err = gap_end(session, process, i, 1);
	/* from the first commit on, each module that comes is reported; one may have come before */
	if (err || !probed->is_on || probed->is_followed)
		return err;
	probed->is_followed = 1;
	return look_again_error(process, look(session, process, NULL, 0, 0));
}

/*
 * Whether a process that continued without GO loses events. A child that shares its parent's store
 * loses only watches.
 */
static int is_missing_events(const struct wm_session *session, const struct process *process)
{
	return process->hello.forked != HELLO_SHARES || spec_count(session->specs, SPEC_OF(watch));
}

static void late_note(struct wm_session *session, struct process *process)
{
	if (process->runs)
		return;
	process->runs = 1;
	session->probes->late_starts += is_missing_events(session, process);
}

static int module_came(struct wm_session *session, struct process *process,
		       const struct control_module *module, const char *path)
{
	const struct late late = { module->base, module->came_ns };
	struct probed *probed = &process->probed;
	int err;

	if (!probed->is_followed)
		return look_again_error(process, look(session, process, NULL, 0, 0));
	/* if it was found before this message came, the agent has placed nothing there */
	module_forget(probed, module->base);
	err = look_again_error(process, look(session, process, &late, 0, 0));
	/* one that can't be read, or is gone already, may have had places */
	if (err || module_at(probed, module->base) || !plan_concerns(session->specs, path, NULL))
		return err;
	return gap_begin(session, process, module->base, module->came_ns, UINT_MAX, path);
}

static int module_gone(struct wm_session *session, struct process *process, uint64_t base)
{
	struct probed *probed = &process->probed;
	int err = 0;

	module_forget(probed, base);
	for (size_t i = probed->gap_count; i-- && !err;)
		if (probed->gaps[i].base == base)
			err = gap_end(session, process, i, 1);
	return err;
}

static int module_changed(struct wm_session *session, struct process *process,
			  const struct control_module *module, const char *path)
{
	return module->gone ? module_gone(session, process, module->base)
			    : module_came(session, process, module, path);
}

/* Nothing is placed there any more. */
static int quiet(struct wm_session *session, struct process *process)
{
	(void)session;
	process_drop_places(process);
	process->probed.count = 0;
	process->probed.is_on = 0;
	process->probed.answered = 0;
	return 0;
}

int probe_replace(struct wm_session *session)
{
	int err = 0;

	plans_release(session->probes);
	session->refused = 0;
	for (struct process *p = session->processes; p && !err; p = p->next) {
		if (!process_is_armed(p))
			continue;
		/* a child may be adopting its parent's */
		err = session_wait_armed(session, p);
		for (size_t i = 0; i < p->probed.count; i++)
			p->probed.modules[i].is_due = 1;
		p->probed.is_on = 1;
		if (!err)
			err = look(session, p, NULL, 1, 1);
		err = err == -WM_E_GONE ? 0 : err;
	}
	for (struct process *p = session->processes; p && !err; p = p->next)
		if (process_is_armed(p))
			err = session_wait_armed(session, p);
	return err;
}

static int change(struct wm_session *session, const struct source_change *change)
{
	(void)change;
	return probe_replace(session);
}

void probe_ended(struct wm_session *session, struct process *process)
{
	session->probes->unarmed += process->probed.pending;
	process->probed.pending = 0;
	while (process->probed.gap_count)
		gap_end(session, process, 0, 0);
	/* it ended before GO: its agent could not report whether it ran */
	if (!process->hello.launched || process->runs)
		return;
	if (ticks_monotonic_ns() - process->hello_ns > GO_WAIT_NS)
		late_note(session, process);
}

/* ---- a source ---- */

static int owns(const struct spec *spec)
{
	return spec->request != NULL;
}

/* Fail if nothing is armed in any process because threads could not be stopped. */
static int begin(struct wm_session *session)
{
	const struct process *last = NULL;

	if (session->sites || spec_trail(session->specs))
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

static int message(struct wm_session *session, struct process *process,
		   const struct link_message *message)
{
	const char *text = (const char *)message->body + sizeof(struct control_refused);
	struct control_refused refused;
	struct control_foreign foreign;
	char name[NAME_BYTES];

	switch (message->type) {
	case CONTROL_REFUSED: /* markers have taken theirs */
		memcpy(&refused, message->body, sizeof(refused));
		return place_refused(session, process, &refused,
				     spec_name_of(text, name, sizeof(name)) ? "" : name);
	case CONTROL_FOREIGN:
		if (message->bytes < sizeof(foreign))
			return -WM_E_PROTOCOL;
		memcpy(&foreign, message->body, sizeof(foreign));
		return foreign_note(session, process, &foreign);
	case CONTROL_LATE:
		late_note(session, process);
		return 0;
	default:
		return 1;
	}
}

static int answered(struct wm_session *session, struct process *process, uint16_t request)
{
	session->probes->unsafe += process->done.unsafe;
	if (request == CONTROL_COMMIT)
		return committed(session, process);
	if (request == CONTROL_PLACE) {
		process->probed.answered += process->done.markers + process->done.refused;
		patience_arming(session);
	}
	return 0;
}

static void status(const struct wm_session *session, struct wm_session_status *status)
{
	status->held = session->probes->foreign_count;
}

static void release(struct wm_session *session)
{
	probes_release(session->probes);
}

const struct source probe_source = {
	.owns = owns,
	.has_agent = 1,
	.change = change,
	.ask = probe_arm,
	.begin = begin,
	.status = status,
	.message = message,
	.answered = answered,
	.module = module_changed,
	.quiet = quiet,
	.findings = probe_findings,
	.release = release,
};
