/* SPDX-License-Identifier: MIT */
/*
 * Batches:
 *
 *   arm      report the events' ids, publish the plans, map the landings, link the chains, store
 *            the jumps
 *   disarm   take the plans away (no event from here on), then the jumps
 *
 * What can't be armed is refused by name. A place with another tool's breakpoint is armed once that
 * has gone (foreign_bytes.c). What can't be disarmed stays inert, until a later try.
 */
#include "base/debug_trace.h"
#include "inside/detour/detour.h"

#include "base/kernel.h"
#include "inside/detour/foreign_bytes.h"
#include "inside/detour/janitor.h"
#include "inside/detour/return.h"
#include "inside/detour/site.h"
#include "inside/runtime/lock.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

#define ARM_MS 1000		     /* for all tries together */
#define IDLE_NS UINT64_C(2000000000) /* what a child inherited may be wanted again soon */
#define RETRY_NS UINT64_C(500000000)

static int may_be_inert; /* some jump is set that no session wants */
static int waits;	 /* for a tracer, or a thread that stood in the way, to be gone */
static uint64_t idle_until_ns, retry_at_ns;
const struct detour_guards *detour_guards;

/* ---- arming ---- */

static void report_refused(const struct detour *detour, unsigned int lane)
{
	struct refusal refusal = { .error = detour->error, .site = &detour->sites[0] };

	memcpy(refusal.expected, detour->record->original, sizeof refusal.expected);
	memcpy(refusal.found, detour->found, sizeof refusal.found);
	if (registry_listener)
		registry_listener->refused(lane, &refusal);
}

/* Ids must be known before the first hit. -EPIPE: the session missed one. */
static int report_events(unsigned int lane)
{
	for (struct detour *d = detour_first(); d; d = d->next) {
		for (int i = 0; i < 2 && d->prepared & 1u << lane; i++) {
			struct variant *event = &d->events[i];

			if (!detour_has_event(d, i) || event->ids[lane] != EVENT_ID_NONE)
				continue;
			event->ids[lane] = registry_next_id(lane);
			if (registry_listener)
				registry_listener->event(lane, event->ids[lane], event);
		}
	}
	return registry_listener && registry_listener->flush() & 1u << lane ? -EPIPE : 0;
}

static int publish_event(struct detour *detour, int i)
{
	if (!detour_has_plan(detour, i))
		return 0;
	detour->events[i].lanes = detour->lanes;
	return planning_publish(&detour->events[i]);
}

static int publish(struct detour *detour)
{
	int error = publish_event(detour, 0);

	return error ? error : publish_event(detour, 1);
}

/* Its events end here for all sessions: each that still wants them hears why. */
static void lose(struct detour *detour, int error)
{
	uint32_t lanes = detour->lanes;

	detour->error = error;
	detour->lanes = 0;
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++)
		if (lanes & 1u << lane)
			report_refused(detour, lane);
	/* no memory for a smaller plan: rather none */
	planning_drop(&detour->events[1]);
	planning_drop(&detour->events[0]);
}

/* Plans for those that still want one. Never fails where no session wants one. */
static void withdraw(struct detour *detour, uint32_t lane_bit)
{
	detour->lanes &= ~lane_bit;
	foreign_bytes_changed();
	/* the return first: a call that begins in between would be recorded without its begin */
	if (publish_event(detour, 1) || publish_event(detour, 0))
		lose(detour, -ENOMEM);
	if (chain_is_wanted(detour))
		return;
	may_be_inert |= detour->head->is_armed;
	/* its landing was lost meanwhile */
	if (!detour->head->is_armed)
		foreign_bytes_end(detour->head);
}

static int is_to_arm(const struct detour *detour)
{
	return detour->is_listed;
}

/*
 * An armed one is looked at again: its module may have been closed and opened since. Returns
 * whether there are guards among them.
 */
static int take_prepared(unsigned int lane, struct detour_result *result)
{
	uint32_t bit = 1u << lane;
	int guards = 0;

	for (struct detour *d = detour_first(); d; d = d->next) {
		d->in_batch = d->is_listed = 0;
		if (!(d->prepared & bit))
			continue;
		d->prepared &= ~bit;
		d->lanes = (d->lanes | bit) & ~registry_replaced(lane);
		d->error = publish(d);
		d->in_batch = !d->error;
		d->head->is_listed |= d->in_batch; /* it came before its members */
		guards |= detour_is_guard(d);
		if (!d->error)
			continue;
		result->refused += (uint32_t)!detour_is_guard(d);
		if (!detour_is_guard(d))
			report_refused(d, lane);
		withdraw(d, bit);
	}
	return guards;
}

/*
 * What became of a jump became of all events that were to be armed there. Guards are not reported.
 */
static void settle_chain(const struct text *text, struct detour *head, unsigned int lane,
			 struct detour_result *result)
{
	int waits_for_tool = head->error == -WM_E_SITE_FOREIGN && !detour_is_guard(head);

	for (struct detour *d = head; d; d = d->next_member) {
		int is_event = !detour_is_guard(d);

		if (!d->in_batch)
			continue;
		if (!head->error || waits_for_tool) {
			result->markers += (uint32_t)is_event;
			result->unsafe += is_event && head->jump.form == FORM_FIRST;
			continue;
		}
		d->error = head->error;
		memcpy(d->found, head->found, sizeof d->found);
		result->refused += (uint32_t)is_event;
		if (is_event)
			report_refused(d, lane);
		withdraw(d, 1u << lane);
	}
	if (!head->error || waits_for_tool)
		foreign_bytes_armed(head, waits_for_tool, lane);
	else if (!head->is_armed && !chain_is_wanted(head))
		site_count_semaphores(text, head, 0);
}

/* What each jump needs before it is stored; those that can't have it are left out. */
static void make_ready(const struct text *text, struct list *list)
{
	size_t kept = 0;

	landing_map();
	for (size_t i = 0; i < list->count; i++) {
		struct detour *head = list->sites[i].detour;

		head->error = landing_error(&head->jump);
		if (!head->error)
			head->error = chain_link(text, head);
		if (!head->error)
			head->error = site_count_semaphores(text, head, 1);
		if (!head->error)
			list->sites[kept++] = list->sites[i];
	}
	list->count = kept;
}

int detour_commit(const struct text *text, unsigned int lane, struct detour_result *result)
{
	int error = report_events(lane);
	struct list list;

	if (!error && take_prepared(lane, result))
		detour_guards->begin();
	if (!error)
		error = site_list_make(&list, is_to_arm);
	if (error) {
		detour_release(lane);
		return error;
	}
	make_ready(text, &list);
	error = site_change_all(text, &list, 1, ARM_MS, result);
	for (struct detour *d = detour_first(); d; d = d->next) {
		if (d->is_listed)
			settle_chain(text, d, lane, result);
	}
	site_list_free(&list);
	DEBUG_TRACE("agent/detour", "lane %d: committed %d events, %d refused: error %d", lane,
		    result->markers, result->refused, error);
	if (registry_listener)
		registry_listener->flush();
	/* each one is reported: the request as a whole has done what it could */
	return result->markers ? 0 : error;
}

/* ---- disarming ---- */

void detour_release(unsigned int lane)
{
	uint32_t bit = 1u << lane;

	for (struct detour *d = detour_first(); d; d = d->next) {
		d->prepared &= ~bit;
		if (d->lanes & bit)
			withdraw(d, bit);
	}
}

void detour_release_unprepared(unsigned int lane)
{
	uint32_t bit = 1u << lane;

	for (struct detour *d = detour_first(); d; d = d->next)
		if (d->lanes & bit && !(d->prepared & bit))
			withdraw(d, bit);
}

static int is_inert(const struct detour *detour)
{
	return detour->is_armed && !chain_is_wanted(detour);
}

static int is_inert_jump(const struct detour *detour)
{
	return is_inert(detour) && !detour_is_guard(detour);
}

static int is_inert_guard(const struct detour *detour)
{
	return is_inert(detour) && detour_is_guard(detour);
}

static uint32_t is_any_inert(int (*which)(const struct detour *))
{
	for (const struct detour *d = detour_first(); d; d = d->next) {
		if (which(d))
			return 1;
	}
	return 0;
}

/* Returns how many are left. */
static uint32_t disarm(const struct text *text, int (*which)(const struct detour *),
		       unsigned int timeout_ms, struct detour_result *result)
{
	struct list list;
	uint32_t left = 0;
	int error = 0;

	if (site_list_make(&list, which))
		return 1;
	if (list.count)
		error = site_change_all(text, &list, 0, timeout_ms, result);
	for (size_t i = 0; i < list.count; i++) {
		struct janitor_site *site = &list.sites[i];

		/* no memory at all: nothing there is ours any more */
		if (!site->is_done && site->error == -EFAULT)
			site->detour->is_armed = 0;
		if (!site->detour->is_armed) {
			foreign_bytes_end(site->detour);
			site_count_semaphores(text, site->detour, 0);
		}
		left += site->detour->is_armed;
		waits |= site->detour->is_armed &&
			 (site_is_passing(error) || site->error == -WM_E_DETOUR_BUSY ||
			  site->error == -WM_E_SITE_FOREIGN);
	}
	site_list_free(&list);
	return left;
}

uint32_t detour_disarm_idle(const struct text *text, unsigned int timeout_ms,
			    struct detour_result *result)
{
	struct detour_result unused = { 0 };
	uint32_t left;

	waits = 0;
	if (!may_be_inert)
		return 0;
	result = result ? result : &unused;
	left = disarm(text, is_inert_jump, timeout_ms, result);
	/* guards stay while anything needs them */
	if (!detour_guards || detour_guards->may_end(text) == 0) {
		left += disarm(text, is_inert_guard, timeout_ms, result);
		if (detour_guards)
			detour_guards->end();
	} else {
		left += is_any_inert(is_inert_guard);
	}
	may_be_inert = left != 0;
	retry_at_ns = lock_now_ns() + RETRY_NS;
	return left;
}

int detour_waits(void)
{
	return waits;
}

void detour_tick(const struct text *text)
{
	uint64_t now_ns;

	if (return_look_for_left(kernel_getpid()))
		janitor_sweep(text);
	if (!may_be_inert)
		return;
	now_ns = lock_now_ns();
	if (now_ns >= retry_at_ns && now_ns >= idle_until_ns)
		detour_disarm_idle(text, 0, NULL);
}

/* ---- sessions, modules, forks ---- */

void detour_lane_open(unsigned int lane)
{
	for (struct detour *d = detour_first(); d; d = d->next) {
		d->events[0].ids[lane] = EVENT_ID_NONE;
		d->events[1].ids[lane] = EVENT_ID_NONE;
	}
}

static int is_in(const struct module *module, uintptr_t address)
{
	for (unsigned int i = 0; i < module->segment_count; i++) {
		if (address >= module->segments[i].start && address < module->segments[i].end)
			return 1;
	}
	return 0;
}

/* By the file's name: a folder may have any. */
static void module_came(const struct module *module)
{
	/* greenlets and what they are made of, coroutines; Ruby's callcc, Scheme's call/cc */
	static const char *const copiers[] = { "greenlet", "pypy",	"stacklet",
					       "tealet",   "libaco.",	"libco.",
					       "libguile", "libracket", "/continuation.so" };
	const char *name = module->path ? strrchr(module->path, '/') : NULL;

	for (size_t i = 0; name && i < sizeof copiers / sizeof copiers[0]; i++) {
		if (strstr(name, copiers[i]))
			return_stop();
	}
}

/* Its detours are forgotten. */
static void module_gone(const struct module *module)
{
	for (struct detour *d = detour_first(); d; d = d->next) {
		if (!is_in(module, d->record->address))
			continue;
		d->is_armed = 0;
		foreign_bytes_end(d);
		d->is_counted_up = 0;
		d->prepared = 0;
		d->lanes = 0;
		planning_drop(&d->events[0]);
		planning_drop(&d->events[1]);
	}
}

void detour_init(void)
{
	static struct registry_observer observer = { .came = module_came, .gone = module_gone };

	registry_observe(&observer);
}

void detour_forked(int whole, uint32_t lanes)
{
	for (struct detour *d = detour_first(); d;
	     d = __atomic_load_n(&d->next, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 2; i++) {
			uint32_t kept = d->events[i].lanes & lanes;

			if (whole && kept != d->events[i].lanes) {
				d->events[i].lanes = kept;
				if (planning_publish(&d->events[i]))
					planning_drop(&d->events[i]);
			} else if (!kept) {
				__atomic_store_n(&d->events[i].hit.plan, NULL, __ATOMIC_RELEASE);
			}
			d->events[i].lanes = kept;
		}
		d->inherited = whole ? d->lanes : 0;
		d->lanes &= lanes;
		d->prepared = 0;
		foreign_bytes_forget(d);
		/* what it misses begins here */
		d->held_ns = lock_now_ns();
		may_be_inert |= d->is_armed;
	}
	idle_until_ns = lock_now_ns() + IDLE_NS;
}

uint32_t detour_adopt(unsigned int from, unsigned int to)
{
	uint32_t bit = 1u << from, count = 0;

	for (struct detour *d = detour_first(); d; d = d->next) {
		/* a fork may have come before a member's link was stored */
		if (!(d->inherited & bit) || !d->head->is_armed || (d != d->head && !d->is_linked))
			continue;
		d->inherited &= ~bit;
		for (int i = 0; i < 2; i++)
			d->events[i].ids[to] = d->events[i].ids[from];
		d->lanes = (d->lanes & ~bit) | 1u << to;
		foreign_bytes_armed(d->head, d->head->is_foreign, to);
		if (publish(d))
			withdraw(d, 1u << to);
		else
			count += !detour_is_guard(d);
	}
	return count;
}
