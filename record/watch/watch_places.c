/* SPDX-License-Identifier: MIT */
/* Find where a process's watches are to be, and make the requests for its agent. */
#include "record/watch/watching_own.h"

#include "base/name_match.h"
#include "base/similar_names.h"
#include "record/session/patience.h"
#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/locals.h"
#include "record/watch/outside.h"
#include "record/watch/watches.h"
#include "target/expression/find.h"
#include "target/expression/variable.h"
#include "target/process/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <waymark/error.h>

#define NEAR_MAX 3
#define AGENT_NAME "libwaymark-agent.so"

static int fail(struct wm_session *session, const struct spec *spec, int err, const char *detail)
{
	return session_fail(session, err, "%s%s%s", spec->text, *detail ? ": " : "", detail);
}

static int on_beat(size_t done, size_t total, void *data)
{
	struct finding *finding = data;
	struct session_progress progress = { "debug information", done, total };

	return patience_beat(finding->session, &progress);
}

static void set_pulse(struct finding *finding, struct code_pulse pulse)
{
	for (size_t i = 0; i < finding->list.module_count; i++)
		finding->list.modules[i]->file->pulse = pulse;
}

static int is_mapped(const struct code_process *process, uint64_t address, uint64_t bytes)
{
	const struct code_memory *memory = &process->memory;
	uint8_t byte;

	return !memory->read(memory->data, address, &byte, 1) &&
	       (bytes < 2 || !memory->read(memory->data, address + bytes - 1, &byte, 1));
}

static unsigned int count_pieces(const struct finding *finding)
{
	unsigned int count = 0;

	for (const struct watching *w = finding->process->watching; w; w = w->next)
		count += w->count;
	for (const struct watching *w = finding->fresh; w; w = w->next)
		count += w->count;
	return count + locals_registers(finding->process->watch.locals);
}

static int describe(struct watched_spec *result, uint32_t process, struct watch_place *place)
{
	result->error = 0;
	result->bytes = place->bytes;
	return watched_type_take(result, process, &place->type);
}

/* Debug registers that watches from outside will take afterwards: one each at least. */
static unsigned int count_outside(const struct finding *finding)
{
	unsigned int count = 0;

	for (size_t i = 0; i < finding->session->specs->count; i++)
		count += finding->session->specs->all[i].watch &&
			 finding->session->specs->all[i].watch->options.is_outside;
	return finding->process->invited && !finding->process->hello.forked ? count : 0;
}

/* Note a local variable; its requests are sent when all are known. Returns 1 or an error. */
static int want_local(struct finding *finding, const struct spec *spec, struct watch_place *place,
		      struct watched_spec *result)
{
	struct watch_trouble trouble = { 0 };
	int err = 0;

	/* it is in a library that came later, and the registers are already shared out */
	if (finding->process->watch.locals) {
		result->error = -WM_E_WATCH_LOCAL_LATER;
		finding->late = spec;
		return 1;
	}
	if (finding->process->outside)
		err = expression_trouble_set(
			&trouble, -WM_E_WATCH_OPTION, 0, 0,
			"from outside a local variable's frames are seen too late");
	else if (live_launches(finding->session))
		err = expression_trouble_set(
			&trouble, -WM_E_TRAIL_ASKED, 0, 0,
			"soft: a local variable's function runs as a translation, elsewhere");
	else if (spec->watch->options.thread)
		err = expression_trouble_set(
			&trouble, -WM_E_WATCH_OPTION, 0, 0,
			"any thread may have its frames; to select the writer, use if=tid==TID");
	if (!err)
		err = locals_want(&finding->locals, (size_t)(spec - finding->session->specs->all),
				  spec->text, spec->watch, place, &trouble);
	if (err)
		return fail(finding->session, spec, err, trouble.detail);
	err = describe(result, finding->process->number, place);
	return err ? fail(finding->session, spec, err, "") : 1;
}

/* Find what the place's life depends on, and the base to add to its address. */
static int find_bond(struct finding *finding, const struct watch_expr *expr,
		     const struct watch_place *place, struct watched_spec *result, uint64_t *base,
		     struct watch_trouble *trouble)
{
	struct watch_bond *bond = &finding->bond;
	int is_library = place->module && (!place->follow_count || expr->options.follows) &&
			 !location_is_program(place->module->file);

	free(result->library);
	result->library = is_library ? strdup(place->module->file->path) : NULL;
	*bond = (struct watch_bond){ .module = is_library ? place->module->base : 0 };
	if (place->base != WATCH_IN_THREAD && place->base != WATCH_IN_BLOCK) {
		if (expr->options.thread)
			return expression_trouble_set(
				trouble, -WM_E_WATCH_OPTION, 0, 0,
				"all threads share it, and thread= is for thread-local variables; to select the writer, use if=tid==TID");
		return 0;
	}
	return thread_find(&bond->owner, base, finding->process->pid, place, expr->options.thread,
			   &finding->list, trouble);
}

struct near_names {
	const char *word;
	char *all[NEAR_MAX + 1]; /* nearest first; the last is the candidate */
	size_t count;
};

static int near_take(const char *name, void *data)
{
	struct near_names *near = data;
	const char *best[NEAR_MAX];
	char *dropped = strdup(name);
	int count;

	if (!dropped)
		return -ENOMEM;
	near->all[near->count++] = dropped;
	count = similar_list(near->word, (const char *const *)near->all, near->count, best,
			     NEAR_MAX);
	for (size_t i = 0; i < near->count; i++) {
		int is_best = 0;

		for (int j = 0; j < count; j++)
			is_best |= best[j] == near->all[i];
		if (!is_best)
			free(near->all[i]);
	}
	memcpy(near->all, best, (size_t)count * sizeof(*best));
	near->count = (size_t)count;
	return 0;
}

/* No variable has that name: append similar names of the program to the detail. */
static void near_add(const struct finding *finding, const struct watch_expr *expr,
		     struct watch_trouble *trouble)
{
	struct near_names near = { .word = expr->name };
	size_t used = strlen(trouble->detail);

	for (size_t i = 0; expr->name && i < finding->module_count; i++)
		if (location_is_program(finding->modules[i]->file) &&
		    expression_takes(expr, finding->modules[i]->file->path,
				     &finding->modules[i]->file->aliases))
			(void)expression_names(finding->modules[i], near_take, &near);
	if (near.count)
		similar_words(near.word, (const char *const *)near.all, near.count,
			      trouble->detail + used, sizeof(trouble->detail) - used);
	for (size_t i = 0; i < near.count; i++)
		free(near.all[i]);
}

/*
 * Whether the program is a static PIE held at its entry, which has not relocated its pointers yet.
 */
static int is_unrelocated(const struct finding *finding, const struct watch_place *place)
{
	const struct code_file *file = place->module ? place->module->file : NULL;

	if (!file || !place->follow_count || !outside_is_held(finding->process) ||
	    file->header.e_type != ET_DYN)
		return 0;
	for (size_t i = 0; i < file->segment_count; i++)
		if (file->segments[i].type == PT_INTERP)
			return 0;
	return 1;
}

static int want_follow(struct finding *finding, const struct spec *spec,
		       const struct watch_place *place, struct watch_trouble *trouble)
{
	if (finding->process->outside)
		return expression_trouble_set(
			trouble, -WM_E_WATCH_OPTION, 0, 0,
			"follow: from outside a pointer's change is seen too late");
	if (live_launches(finding->session))
		return expression_trouble_set(
			trouble, -WM_E_WATCH_OPTION, 0, 0,
			"follow: a soft trail's translation does not wait for registers to move");
	return ask_make_follow(&finding->plan, &finding->asked, spec->watch, place, trouble);
}

/*
 * Find an expression's value in the process and fill in finding->asked, the requests for the agent.
 * Returns 0; 1 if this process has nothing to request; or an error, with the session's detail.
 */
static int find_place(struct finding *finding, const struct spec *spec, struct watched_spec *result)
{
	struct code_process process = loaded_process(&finding->list);
	struct watch_place place = { 0 };
	struct watch_trouble trouble = { 0 };
	uint64_t address = 0, base = 0;
	int err = expression_place_find(&place, spec->watch, finding->modules,
					finding->module_count, &trouble);

	/*
	 * the named module may still be loaded; in a pass for newcomers a missing place is no error
	 */
	if (err == -WM_E_NO_MODULE || (err && err != -ENOMEM && finding->wants &&
				       !(finding->must && spec >= finding->must))) {
		result->error = err;
		watch_place_release(&place);
		return 1;
	}
	if (!err && place.base == WATCH_IN_FRAME) {
		err = want_local(finding, spec, &place, result);
		watch_place_release(&place);
		return err;
	}
	if (!err)
		err = find_bond(finding, spec->watch, &place, result, &base, &trouble);
	finding->plan = (struct follow_plan){ 0 };
	if (!err && spec->watch->options.follows)
		err = want_follow(finding, spec, &place, &trouble);
	else if (!err)
		err = watch_place_address(&place, &process.memory, base, &address, &trouble);
	if (!err && !finding->plan.pointers && !is_mapped(&process, address, place.bytes))
		err = expression_trouble_set(&trouble, -WM_E_WATCH_UNMAPPED, 0, 0, "0x%llx",
					     (unsigned long long)address);
	if (err == -WM_E_WATCH_UNMAPPED && is_unrelocated(finding, &place))
		err = expression_trouble_set(
			&trouble, err, 0, 0,
			"a static PIE relocates its pointers after its start: watch the pointer "
			"itself, or attach with -p once it runs");
	if (!err && !finding->plan.pointers)
		err = ask_make(&finding->asked, spec->watch, &place, address, &trouble);
	if (!err && count_pieces(finding) + finding->asked.count > EVENT_SOURCES_MAX)
		err = expression_trouble_set(
			&trouble, -WM_E_WATCH_LARGE, 0, 0,
			"with the watches before it, it would be the %uth register",
			count_pieces(finding) + finding->asked.count);
	if (!err) {
		for (unsigned int i = 0; i < finding->asked.count; i++) {
			finding->asked.about[i].owner = finding->bond.owner.word;
			finding->asked.about[i].owner_number = finding->bond.owner.number;
		}
		result->address = address;
		result->skew = address % 8;
		result->pieces = finding->asked.count - finding->plan.pointers;
		err = describe(result, finding->process->number, &place);
	}
	watch_place_release(&place);
	if (err == -WM_E_WATCH_VARIABLE && trouble.error == err)
		near_add(finding, spec->watch, &trouble);
	return err ? fail(finding->session, spec, err, trouble.detail) : 0;
}

/* ---- requests: each watch belongs to one of the process's event objects ---- */

static int has_spec(const struct watching *watching, const struct locals *locals, size_t spec)
{
	for (; watching; watching = watching->next)
		for (unsigned int i = 0; i < watching->count; i++)
			if (watching->all[i].spec == spec)
				return 1;
	return locals_has(locals, spec);
}

int watching_has(const struct process *process, size_t spec)
{
	return has_spec(process->watching, process->watch.locals, spec);
}

int watch_finding_has(const struct finding *finding, size_t spec)
{
	return watching_has(finding->process, spec) ||
	       has_spec(finding->fresh, finding->locals, spec);
}

static int has_number(const struct watching *watching, uint32_t number)
{
	for (; watching; watching = watching->next)
		for (unsigned int i = 0; i < watching->count; i++)
			if (watching->all[i].number == number)
				return 1;
	return 0;
}

/*
 * Numbers are taken in turn, so that one is reused as late as possible: a signal of the watch that
 * had it before may still be in flight.
 */
uint32_t watch_finding_number(const struct finding *finding)
{
	struct watch_state *state = &finding->process->watch;
	uint64_t locals = locals_numbers(state->locals) | locals_numbers(finding->locals);
	uint32_t number;

	do
		number = state->next++ % WATCH_ROWS_MAX;
	while (locals & UINT64_C(1) << number || has_number(finding->process->watching, number) ||
	       has_number(finding->fresh, number));
	if (state->table)
		memset(&state->table->rows[number], 0, sizeof(state->table->rows[number]));
	return number;
}

static uint32_t follows_of(const struct watching *watching)
{
	uint32_t taken = 0;

	for (; watching; watching = watching->next)
		taken |= watching->plan.pointers ? 1u << watching->plan.index : 0;
	return taken;
}

/* A free chain of the table: the debug registers suffice for no more than FOLLOWS_MAX. */
static unsigned int follow_index(const struct finding *finding)
{
	uint32_t taken = follows_of(finding->process->watching) | follows_of(finding->fresh);

	return (unsigned int)__builtin_ctz(~taken) % FOLLOWS_MAX;
}

/*
 * Watches with the same bond share an object, but each followed chain has its own. NULL: no memory.
 */
static struct watching *choose_watching(struct finding *finding)
{
	const struct watch_bond *bond = &finding->bond;
	struct watching *watching = finding->fresh, **end = &finding->fresh;

	/* from outside all share one: no agent reports what is unloaded */
	while (watching && !finding->process->outside &&
	       (watching->plan.pointers || finding->plan.pointers ||
		watching->bond.module != bond->module ||
		watching->bond.owner.tid != bond->owner.tid))
		watching = watching->next;
	if (watching)
		return watching;
	watching = calloc(1, sizeof(*watching));
	if (!watching)
		return NULL;
	watching->bond = *bond;
	watching->plan = finding->plan;
	watching->plan.index = follow_index(finding);
	watching->pid = finding->process->pid;
	watching->magic = finding->process->outside ? 0 : finding->process->watch.magic;
	watching->set = finding->process->watch.sets++;
	while (*end)
		end = &(*end)->next;
	*end = watching;
	return watching;
}

/*
 * Send the request for one piece, as row `number`, with the event id of row `event`.
 */
static int piece_ask(struct finding *finding, size_t spec, unsigned int piece, uint8_t set,
		     uint32_t number, uint32_t event)
{
	struct control_watch about = finding->asked.about[piece];
	const char *text = finding->asked.text;
	struct iovec parts[] = { { &about, sizeof(about) }, { (void *)text, strlen(text) + 1 } };
	int has_text = !piece && text[0];

	about.number = number;
	about.magic = finding->process->watch.magic;
	about.set = set;
	about.event = (uint16_t)(text[0] ? event : number);
	if (finding->process->outside)
		return outside_ask(finding->session, finding->process, &about, spec,
				   has_text ? text : "");
	return process_request(finding->process, CONTROL_WATCH, parts, has_text ? 2 : 1);
}

int watching_ask(struct finding *finding, size_t spec)
{
	struct watching *watching = choose_watching(finding);
	struct asked_watch *asked = &finding->asked;
	uint32_t first = 0;

	if (!watching)
		return -ENOMEM;
	watching->asked[watching->count] = malloc(sizeof(*asked));
	if (!watching->asked[watching->count])
		return -ENOMEM;
	*watching->asked[watching->count] = *asked;
	for (unsigned int i = 0; i < asked->count; i++) {
		struct watched one = { .spec = spec,
				       .address = asked->about[i].address,
				       .number = watch_finding_number(finding),
				       .is_pointer = (asked->about[i].flags & WATCH_LEADS) != 0,
				       .bytes = asked->about[i].bytes };
		int err;

		if (watching->plan.pointers)
			asked->about[i].group = (uint8_t)watching->plan.index;
		first = i ? first : one.number;
		err = piece_ask(finding, spec, i, watching->set, one.number, first);
		if (err)
			return err;
		watching->all[watching->count++] = one;
	}
	return 0;
}

int watch_finding_ask_parents(struct finding *finding)
{
	int err = 0;

	for (const struct watching *w = finding->parent->watching; w; w = w->next)
		for (unsigned int i = 0; i < w->count && !err && !w->bond.owner.tid; i++) {
			/* later_attend() may have armed it for a module already */
			if (!w->asked[i] || watch_finding_has(finding, w->all[i].spec))
				continue;
			finding->asked = *w->asked[i];
			finding->bond = w->bond;
			finding->plan = w->plan;
			err = watching_ask(finding, w->all[i].spec);
		}
	return err;
}

/* ---- the process's modules ---- */

/* Leave out the agent's own module: its variables are not for users. */
static int choose_modules(struct finding *finding)
{
	finding->modules = calloc(finding->list.module_count + 1, sizeof(struct code_module *));
	if (!finding->modules)
		return -ENOMEM;
	for (size_t i = 0; i < finding->list.module_count; i++) {
		struct code_module *module = finding->list.modules[i];

		if (strcmp(name_last_part(module->file->path), AGENT_NAME))
			finding->modules[finding->module_count++] = module;
	}
	return 0;
}

/*
 * A hit's signal comes on the stack that its thread uses, and Go's stacks may have no room for it.
 */
static int refuse_go(const struct finding *finding)
{
	for (size_t i = 0; !finding->process->outside && i < finding->module_count; i++)
		if (code_file_is_go(finding->modules[i]->file))
			return session_fail(finding->session, -WM_E_WATCH_GO, "%s",
					    finding->modules[i]->file->path);
	return 0;
}

static int find_spec(struct finding *finding, size_t spec)
{
	struct wm_session *session = finding->session;
	const struct spec *about = &session->specs->all[spec];
	struct watch_trouble trouble = { 0 };
	struct watched_spec *result;
	int err;

	if (!outside_wants(finding->process, about->watch) || watch_finding_has(finding, spec) ||
	    (finding->wants && !finding->wants(finding, spec)))
		return 0;
	err = thread_concerns(session, finding->process->pid, about->watch, &trouble);
	if (err < 0 && !finding->wants)
		return fail(session, about, err, trouble.detail);
	if (err <= 0)
		return 0;
	result = watched_result(session, spec);
	err = result ? find_place(finding, about, result) : -ENOMEM;
	if (!err)
		err = watching_ask(finding, spec);
	return err > 0 ? 0 : err;
}

/* Read the modules of the process. watch_finding_close() comes in any case. */
static int open_modules(struct finding *finding)
{
	int err = loaded_read(&finding->list, finding->process->pid);

	if (err == -ESRCH)
		return -WM_E_GONE;
	if (!err)
		err = loaded_open(&finding->list);
	if (!err)
		err = choose_modules(finding);
	if (err)
		return session_fail(finding->session, err, "pid %d", (int)finding->process->pid);
	set_pulse(finding, (struct code_pulse){ on_beat, finding });
	return refuse_go(finding);
}

void watch_finding_close(struct finding *finding)
{
	set_pulse(finding, (struct code_pulse){ 0 });
	free(finding->modules);
	loaded_release(&finding->list);
}

int watch_finding_all(struct finding *finding)
{
	struct wm_session *session = finding->session;
	int err = open_modules(finding);

	for (size_t i = 0; i < session->specs->count && !err; i++)
		err = find_spec(finding, i);
	if (!err && finding->locals)
		err = locals_ask(finding, count_pieces(finding) + count_outside(finding));
	/*
	 * a library or program that was just loaded has no frames yet; one whose specs change has
	 */
	if (!err && finding->locals &&
	    (finding->must || (!finding->wants && !finding->process->hello.launched)))
		err = locals_ask_living(finding);
	return err;
}

/* Report the agent's various errors about SIGTRAP as one error, with the agent's as the detail. */
static int explain(struct wm_session *session, const struct process *process, int err)
{
	static const int causes[] = { WM_E_TRAP_GUARDS, WM_E_TRAP_IGNORED, WM_E_TRAP_FILTER,
				      WM_E_TRAP_REPLACED };
	struct target target;

	/*
	 * the process has to stop its threads to arm the guards' jumps: see whether something
	 * forbids that
	 */
	if (err == -WM_E_TRAP_GUARDS && !target_read(&target, process->pid)) {
		if (!target_may_stop_itself(&target))
			return session_fail(session, -WM_E_NO_PTRACE, "pid %d", (int)process->pid);
		if (target.tracer_pid && !live_is_wanted(session))
			return session_fail(session, -WM_E_TRACED, "pid %d", (int)process->pid);
	}
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (err == -causes[i])
			return session_fail(session, -WM_E_WATCH_TRAP, "%s", wm_error_text(err));
	return err;
}

static int wait_for_agent(struct finding *finding)
{
	int err = session_wait(finding->session, finding->process, ANSWER_WAIT_MS);

	finding->process->error = 0;
	if (!err && finding->process->watch.lost)
		err = finding->process->watch.lost;
	if (!err && finding->process->watch.has_ended)
		err = -WM_E_GONE;
	if (err)
		return explain(finding->session, finding->process, err);
	return finding->process->watch.table ? 0 : -WM_E_PROTOCOL;
}

int watch_finding_wait(struct finding *finding)
{
	struct watch_state *state = &finding->process->watch;
	int err = finding->process->outside ? outside_table(&state->table)
					    : wait_for_agent(finding);

	for (struct watching *w = finding->fresh; w && !err; w = w->next)
		w->table = state->table;
	return err;
}
