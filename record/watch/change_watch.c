/* SPDX-License-Identifier: MIT */
/*
 * Change a watch in place, in all processes or in none:
 *
 *	1. find	    in each process the new expression's place; send the agent its request, the
 *	            gate closed
 *	2. change   the kernel's events, process by process, with the threads stopped if possible;
 *	            settle() switches the gates
 *	3. keep     the new spec in place of the old one, and the gap in the trace
 *	4. leave    wait a moment for pending hits of the old watch; then have the agent drop it
 *
 * If step 2 fails in one process, the processes before it are changed back. If step 1 fails, no
 * event was touched.
 */
#include "record/watch/change_watch.h"

#include "record/spec/spec.h"
#include "record/trail/live.h"
#include "record/watch/pending_hits.h"
#include "record/watch/watches.h"
#include "record/watch/watching.h"
#include "record/watch/watching_own.h"
#include "target/process/target.h"
#include "trace/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define NOT_ASKED UINT32_MAX

/* The change in one process. */
struct changing {
	struct changing *next;
	struct process *process;
	struct watching *watching;
	unsigned int first, count; /* the watch's pieces, which are also sources of the object */
	enum watch_kind kind, kind_before;
	const char *text, *text_before;
	struct asked_watch *asked; /* the new requests; step 3 gives them to the object */
	struct watch_bond bond;
	struct watched is[EVENT_SOURCES_MAX], was[EVENT_SOURCES_MAX];
	uint64_t hits[EVENT_SOURCES_MAX]; /* of the old watch, by the time of its change */
	struct event_gap gap;
	int is_over; /* the process ended during step 1 */
	int is_changed;
	int is_going_back;
};

/* The change in all processes. */
struct change {
	struct wm_session *session;
	size_t index;
	struct spec_list specs; /* only the new spec */
	/* the results of the new watch; from step 3 on, those of the old one */
	struct watched_spec *fresh;
	struct changing *all;
};

/* ---- 1. find ---- */

/*
 * A watch of one thread's variable, or in a library, ends with that thread or library, and ends its
 * whole object. If the object has other watches, the new one must end with the same.
 */
static int bond_check(struct change *change, const struct changing *changing,
		      const struct watch_bond *bond)
{
	const struct watch_bond *was = &changing->watching->bond;

	if (changing->count == changing->watching->count ||
	    (was->module == bond->module && was->owner.tid == bond->owner.tid))
		return 0;
	return session_fail(change->session, -WM_E_WATCH_CHANGE,
			    "%s: it shares an event with other watches; the new one could not: "
			    "watch a variable of the same library and the same thread",
			    changing->text);
}

static int ask(struct change *change, struct changing *changing, struct finding *finding)
{
	const struct spec *spec = &change->specs.all[0];
	struct watch_trouble trouble = { 0 };
	uint32_t event = 0;
	int err = thread_concerns(change->session, finding->process->pid, spec->watch, &trouble);

	if (err <= 0)
		return session_fail(change->session, err ? err : -WM_E_WATCH_NO_TID, "%s%s%s",
				    spec->text, trouble.detail[0] ? ": " : "", trouble.detail);
	finding->given_back = changing->count;
	err = watch_finding_place(finding, spec, change->fresh);
	if (err > 0)
		return session_fail(change->session, -WM_E_NO_MODULE, "%s", spec->text);
	if (!err && finding->asked.count != changing->count)
		return session_fail(change->session, -WM_E_WATCH_CHANGE,
				    "%s: it takes %u debug registers, and the one before %u",
				    spec->text, finding->asked.count, changing->count);
	if (!err)
		err = bond_check(change, changing, &finding->bond);
	if (err)
		return err;
	changing->bond = finding->bond;
	*changing->asked = finding->asked;
	for (unsigned int i = 0; i < changing->count && !err; i++) {
		const struct control_watch *about = &finding->asked.about[i];

		changing->is[i] = (struct watched){ .spec = change->index,
						    .address = about->address,
						    .bytes = about->bytes,
						    .number = watch_finding_number(finding) };
		event = i ? event : changing->is[i].number;
		err = watch_finding_ask(finding, change->index, i, changing->watching->set,
					changing->is[i].number, event);
	}
	return err;
}

static int find(struct change *change, struct changing *changing)
{
	struct finding finding = { .session = change->session, .process = changing->process };
	int err = watch_finding_open(&finding);

	if (!err)
		err = ask(change, changing, &finding);
	watch_finding_close(&finding);
	return err ? err : watch_finding_wait(&finding);
}

/* NULL: no memory. */
static struct changing *changing_new(struct change *change, struct process *process,
				     struct watching *watching)
{
	const struct spec *is = &change->specs.all[0],
			  *was = &change->session->specs->all[change->index];
	struct changing *new = calloc(1, sizeof(*new));

	if (new)
		*new = (struct changing){ .asked = malloc(sizeof(*new->asked)) };
	if (!new || !new->asked) {
		free(new);
		return NULL;
	}
	new->process = process;
	new->watching = watching;
	new->kind = is->watch->kind;
	new->kind_before = was->watch->kind;
	new->text = is->text;
	new->text_before = was->text;
	for (unsigned int i = 0; i < EVENT_SOURCES_MAX; i++)
		new->is[i].number = NOT_ASKED;
	for (unsigned int i = 0; i < watching->count; i++) {
		if (watching->all[i].spec != change->index)
			continue;
		new->first = new->count ? new->first : i;
		new->was[new->count++] = watching->all[i];
	}
	new->next = change->all;
	change->all = new;
	process->watch.is_arming = 1;
	watching->changing = new;
	return new;
}

/* The process's object that has the spec's watch. NULL: none. */
static struct watching *watching_of(const struct process *process, size_t spec)
{
	for (struct watching *w = process->watching; w; w = w->next)
		for (unsigned int i = 0; i < w->count; i++)
			if (w->all[i].spec == spec)
				return w;
	return NULL;
}

/*
 * Step 1, in all processes that have the watch. Processes that come meanwhile wait (watch/later.h).
 */
static int find_all(struct change *change)
{
	int err = 0;

	for (struct process *p = change->session->processes; p && !err; p = p->next) {
		struct watching *watching = watching_of(p, change->index);
		struct changing *changing;

		if (!watching)
			continue;
		if (watching->plan.pointers)
			return session_fail(change->session, -WM_E_WATCH_OPTION,
					    "follow: such a watch is not changed in place");
		if (p->outside)
			return session_fail(change->session, -WM_E_WATCH_OPTION,
					    "pid %d: from outside nothing is changed in place",
					    (int)p->pid);
		changing = changing_new(change, p, watching);
		err = changing ? find(change, changing) : -ENOMEM;
		/* an ending process needs no new watch; it loses its memory before it is dead */
		if (changing && err && (err == -WM_E_GONE || !target_has_memory(p->pid))) {
			changing->is_over = 1;
			err = 0;
		}
	}
	return err;
}

/* ---- 2. change ---- */

static void gate_set(const struct watching *watching, uint32_t number, uint32_t gate)
{
	__atomic_store_n(&watching->table->rows[number].gate, gate, __ATOMIC_RELEASE);
}

/* The object's other watches must accept the next generation before the first event has it. */
static void open_others(const struct changing *changing)
{
	const struct watching *watching = changing->watching;
	uint8_t next = (uint8_t)(perf_object_generation(watching->object) + 1);

	for (unsigned int i = 0; i < watching->count; i++)
		if (i < changing->first || i >= changing->first + changing->count)
			gate_set(watching, watching->all[i].number,
				 WATCH_GATE_SINCE(watching->all[i].since, next, WATCH_ON));
}

int change_settle(struct watching *watching, uint8_t generation)
{
	struct changing *changing = watching->changing;
	uint8_t before = (uint8_t)(generation - 1);

	for (unsigned int i = 0; i < changing->count; i++) {
		unsigned int source = changing->first + i;
		uint64_t hits = 0;

		perf_object_count(watching->object, source, &hits);
		if (changing->is_going_back) {
			/* the hits since the change belong to the new watch */
			changing->was[i].before += hits - changing->is[i].before;
			gate_set(watching, changing->is[i].number, WATCH_OFF);
			gate_set(watching, changing->was[i].number,
				 WATCH_GATE_SINCE(changing->was[i].since, generation, WATCH_ON));
			continue;
		}
		changing->hits[i] = hits - changing->was[i].before;
		changing->is[i].before = hits;
		changing->is[i].since = generation;
		watched_value(watching, &changing->is[i]);
		gate_set(watching, changing->was[i].number,
			 WATCH_GATE_SINCE(changing->was[i].since, before, WATCH_LEAVING));
		gate_set(watching, changing->is[i].number, WATCH_GATE(generation, WATCH_ON));
	}
	return 0;
}

/* Give the process's events their new sources, or on the way back the old ones. */
static int change_one(struct wm_session *session, struct changing *changing)
{
	const struct watching *watching = changing->watching;
	const struct watched *to = changing->is_going_back ? changing->was : changing->is;
	struct event_source sources[EVENT_SOURCES_MAX];
	char words[512] = "";
	int err;

	memcpy(sources, perf_object_sources(watching->object), watching->count * sizeof(*sources));
	for (unsigned int i = 0; i < watching->count; i++)
		sources[i].sig_data &= ~EVENT_OBJECT_BITS;
	for (unsigned int i = 0; i < changing->count; i++)
		sources[changing->first + i] = watched_source(
			watching, &to[i],
			changing->is_going_back ? changing->kind_before : changing->kind,
			changing->is_going_back ? changing->text_before : changing->text);
	open_others(changing);
	err = perf_object_modify(watching->object, sources, EVENT_MODIFY_STOPPED, &changing->gap,
				 (struct detail){ words, sizeof(words) });
	if (err && err != -WM_E_GONE)
		return session_fail(session, err, "%s: pid %d%s%s", changing->text,
				    (int)changing->process->pid, words[0] ? ": " : "", words);
	return err;
}

static int is_ready(const struct changing *changing)
{
	const struct watch_state *state = &changing->process->watch;

	return !changing->is_over && !state->has_ended && !state->lost &&
	       !changing->watching->is_gone;
}

static int change_all(struct change *change)
{
	for (struct changing *c = change->all; c; c = c->next) {
		int err = is_ready(c) ? change_one(change->session, c) : -WM_E_GONE;

		c->is_changed = !err;
		if (err == -WM_E_EVENT_TORN)
			c->process->watch.lost = err;
		if (err && err != -WM_E_GONE)
			return err;
	}
	return 0;
}

static void change_back(struct change *change)
{
	char detail[DETAIL_BYTES];

	memcpy(detail, change->session->detail, sizeof(detail));
	for (struct changing *c = change->all; c; c = c->next) {
		if (!c->is_changed)
			continue;
		c->is_going_back = 1;
		if (change_one(change->session, c) && is_ready(c))
			c->process->watch.lost = -WM_E_EVENT_TORN;
		for (unsigned int i = 0; i < c->count; i++)
			c->watching->all[c->first + i] = c->was[i];
	}
	memcpy(change->session->detail, detail, sizeof(detail));
}

/* ---- 3. keep ---- */

static void keep_in_trace(const struct change *change, const struct changing *changing)
{
	struct wm_session *session = change->session;
	struct trace_change about = {
		.from = changing->text_before,
		.to = changing->text,
		.begin_ns = session_wall_ns(session, changing->gap.first_ns),
		.gap_ns = changing->gap.last_ns - changing->gap.first_ns,
		.was_stopped = changing->gap.was_stopped,
	};
	int err;

	if (!session->writer || changing->process->trace < 0)
		return;
	err = trace_change_add(session->writer, changing->process->trace, &about);
	if (err && !session->trace_error)
		session->trace_error = err;
}

static void keep_gap(struct event_gap *all, const struct event_gap *one, int is_first)
{
	if (is_first || one->first_ns < all->first_ns)
		all->first_ns = one->first_ns;
	if (is_first || one->last_ns > all->last_ns)
		all->last_ns = one->last_ns;
	all->was_stopped = (is_first || all->was_stopped) && one->was_stopped;
	all->generation = one->generation;
}

/* Swap specs and results: the session's list gets the new ones, `change` the old ones. */
static void keep(struct change *change, struct event_gap *gap)
{
	struct wm_session *session = change->session;
	struct watched_spec *now = &session->watched->all[change->index], old = *now;
	struct spec *spec = &session->specs->all[change->index], *to = &change->specs.all[0];
	char *text = spec->text;
	struct watch_expr *watch = spec->watch;
	unsigned int processes = 0;

	*gap = (struct event_gap){ 0 };
	for (struct changing *c = change->all; c; c = c->next) {
		if (!c->is_changed)
			continue;
		keep_gap(gap, &c->gap, !processes++);
		keep_in_trace(change, c);
		for (unsigned int i = 0; i < c->count; i++)
			c->watching->all[c->first + i] = c->is[i];
		free(c->watching->asked[c->first]);
		c->watching->asked[c->first] = c->asked;
		c->asked = NULL;
		c->watching->bond = c->bond;
	}
	spec->text = to->text;
	spec->watch = to->watch;
	to->text = text;
	to->watch = watch;
	*now = *change->fresh;
	now->earlier = change->fresh;
	now->is_code = spec->watch->kind == WATCH_EXECUTE;
	now->processes = processes;
	now->threads = old.threads;
	*change->fresh = old;
	change->fresh->until_realtime_ns = session_wall_ns(session, gap->first_ns);
	change->fresh->gap_ns = gap->last_ns - gap->first_ns;
	change->fresh->was_stopped = gap->was_stopped;
}

/* ---- 4. leave ---- */

static const struct watch_row *row_of(const struct changing *changing, unsigned int i)
{
	return &changing->watching->table->rows[changing->was[i].number];
}

static uint64_t told_of(const struct changing *changing, unsigned int i)
{
	const struct watch_row *row = row_of(changing, i);

	return row->taken + row->dropped;
}

static int is_all_told(void *data)
{
	const struct changing *changing = data;

	for (unsigned int i = 0; i < changing->count; i++)
		if (told_of(changing, i) + row_of(changing, i)->beside < changing->hits[i])
			return 0;
	return 1;
}

/*
 * Count what the old watch was hit. If threads ran during the change, some had the new watch before
 * the kernel's count was read. Then only the hits that the agent took are certainly the old
 * watch's.
 */
static void add_up(struct changing *changing, struct watch_counts *counts)
{
	pending_hits_wait(changing->process, is_all_told, changing);
	for (unsigned int i = 0; i < changing->count; i++) {
		uint64_t hits = changing->hits[i];

		gate_set(changing->watching, changing->was[i].number, WATCH_OFF);
		if (!changing->gap.was_stopped) {
			hits = told_of(changing, i);
			changing->watching->all[changing->first + i]
				.before = changing->was[i].before + hits;
		}
		watched_add(changing->watching, &changing->was[i], hits, counts);
	}
}

static void unask(struct changing *changing, const struct watched *pieces)
{
	for (unsigned int i = 0; i < changing->count && changing->process->link.fd >= 0; i++) {
		struct control_unwatch one = { pieces[i].number, pieces[i].number };
		struct iovec part = { &one, sizeof(one) };

		if (pieces[i].number != NOT_ASKED)
			process_request(changing->process, CONTROL_UNWATCH, &part, 1);
	}
}

/* Do what was put off during the change. */
static void let_go(struct change *change, struct changing *changing)
{
	struct process *process = changing->process;
	struct watch_state *state = &process->watch;
	int lost = state->lost, has_ended = state->has_ended;

	changing->watching->changing = NULL;
	state->is_arming = state->has_ended = state->lost = 0;
	if (lost)
		watching_lost(change->session, process, lost);
	else if (has_ended)
		watching_end(change->session, process);
	else if (changing->watching->is_gone)
		watching_end_one(change->session, process, changing->watching, 0);
	free(changing->asked);
	free(changing);
}

static void leave(struct change *change, int err)
{
	for (struct changing *c = change->all; c; c = c->next) {
		if (!err && c->is_changed)
			add_up(c, &change->fresh->counts);
		unask(c, !err && c->is_changed ? c->was : c->is);
		session_wait(change->session, c->process, ANSWER_WAIT_MS);
		c->process->error = 0;
	}
	while (change->all) {
		struct changing *c = change->all;

		change->all = c->next;
		let_go(change, c);
	}
}

/* ---- called by the public API ---- */

static int read_spec(struct change *change, const char *to)
{
	struct wm_session *session = change->session;
	int err = spec_add(&change->specs, to);

	if (err)
		return session_fail(session, err, "%s%s%s", to, change->specs.words[0] ? ": " : "",
				    change->specs.words);
	if (!change->specs.all[0].watch)
		return session_fail(session, -WM_E_SPEC, "%s: a watch becomes a watch", to);
	if (change->specs.all[0].watch->options.is_outside)
		return session_fail(session, -WM_E_WATCH_OPTION,
				    "%s: from outside nothing is changed in place", to);
	if (change->index < session->watched->count &&
	    session->watched->all[change->index].is_local)
		return session_fail(session, -WM_E_WATCH_CHANGE,
				    "%s: the watch is of a local variable", to);
	for (size_t i = 0; i < session->specs->count; i++)
		if (!strcmp(session->specs->all[i].text, to))
			return session_fail(session, -WM_E_SPEC_TWICE, "%s", to);
	change->fresh = calloc(1, sizeof(*change->fresh));
	if (change->fresh) {
		change->fresh->text = strdup(to);
		change->fresh->words = strdup(change->specs.all[0].watch->words);
	}
	if (!change->fresh || !change->fresh->text || !change->fresh->words ||
	    !watched_result(session, change->index))
		return -ENOMEM;
	return 0;
}

int change_watch(struct wm_session *session, size_t index, const char *to,
		 struct wm_kevent_gap *gap)
{
	struct change change = { .session = session, .index = index };
	struct event_gap inner = { 0 };
	int err = read_spec(&change, to);

	session->in_step++; /* keeps session_step() from freeing processes */
	session->watched->is_arming = 1;
	if (!err)
		err = find_all(&change);
	if (!err) {
		err = change_all(&change);
		if (err)
			change_back(&change);
		else
			keep(&change, &inner);
	}
	leave(&change, err);
	session->watched->is_arming = 0;
	session->in_step--;
	spec_list_release(&change.specs);
	if (err && change.fresh) {
		watched_spec_release(change.fresh);
		free(change.fresh);
	}
	gap->first_ns = inner.first_ns;
	gap->last_ns = inner.last_ns;
	gap->was_stopped = inner.was_stopped;
	gap->generation = inner.generation;
	return err;
}
