/* SPDX-License-Identifier: MIT */
/*
 * Batches:
 *
 *   arm      tell the events' ids, publish the plans, store the jumps with every thread stopped
 *   disarm   take the plans away (no event from here on), then the jumps, likewise stopped
 *
 * A stop may fail, since a debugger is there or a thread stood in a span; then it is tried again. What
 * can't be armed in the end is refused by name. What can't be disarmed stays inert, until a later try.
 */
#include "agent/detour/detour.h"

#include "agent/control/heap.h"
#include "agent/control/lock.h"
#include "agent/detour/exits.h"
#include "agent/detour/janitor.h"
#include "agent/detour/list.h"
#include "agent/detour/return.h"
#include "agent/marker/planning.h"
#include "agent/watch/sigtrap.h"
#include "base/kernel.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

#define ARM_MS 1000	/* for all tries together */
#define STARVED_TIMES 3 /* as long, while no try has had all threads stopped */
#define STOP_FIRST_MS 8 /* how long a try waits for the threads, the first and the last */
#define STOP_LAST_MS 200
#define PAUSE_FIRST_NS 500000
#define PAUSE_LAST_NS 32000000
#define IDLE_NS UINT64_C(2000000000)	  /* what a child inherited may be wanted again soon */
#define COUNTING_NS UINT64_C(10000000000) /* as long as the tool may take to come to it */
#define RETRY_NS UINT64_C(500000000)

static int may_be_inert; /* some jump stands that nobody wants */
static int waits;	 /* for a tracer, or a thread that stood in the way, to be gone */
static uint64_t idle_until_ns, retry_at_ns;

/* ---- trying ---- */

static int may_be_done(int error)
{
	return !error || error == -WM_E_DETOUR_BUSY;
}

static size_t undone(const struct list *list)
{
	size_t left = 0;

	for (size_t i = 0; i < list->count; i++)
		left += !list->sites[i].is_done && may_be_done(list->sites[i].error);
	return left;
}

/* Whether trying again may help. */
static int is_passing(int error)
{
	return error == -WM_E_STRICT || error == -EAGAIN || error == -WM_E_TRACED;
}

/* Some thread waited for a processor, for its vfork(2)'s child or the like: it will stop in time. */
static int is_starved(int error)
{
	return error == -WM_E_STRICT || error == -EAGAIN;
}

static int stands(const struct text *text, const struct detour *detour)
{
	uint8_t found[DETOUR_JUMP_BYTES];

	return !text_read(text, detour->record->address, found, detour->jump_bytes) &&
	       !memcmp(found, detour->jump, detour->jump_bytes);
}

/* Nobody needs to stop for a jump that another session has had stored, or that a child inherited. */
/* Whether all of a chain that are to be armed are reached, and their semaphores are up. */
static int chain_stands(const struct detour *head)
{
	const struct detour *d = head;

	while (d && !(d->in_batch && ((d != head && !d->is_linked) ||
				      (d->record->semaphore && !d->is_counted_up))))
		d = d->next_member;
	return !d;
}

static void mark_standing(const struct text *text, struct list *list, int arm)
{
	for (size_t i = 0; arm && i < list->count; i++) {
		struct janitor_site *site = &list->sites[i];

		site->is_done = site->detour->is_armed && stands(text, site->detour) &&
				chain_stands(site->detour);
	}
}

/*
 * Until all is done or refused, or the time is over. Returns 0, or why nothing more could be done; then
 * see each site.
 */
static int try_all(const struct text *text, struct list *list, int arm, unsigned int timeout_ms,
		   struct detour_result *result)
{
	uint64_t begin_ns = lock_now_ns(), wait_ns = (uint64_t)timeout_ms * 1000000;
	unsigned int patience_ms = STOP_FIRST_MS;
	long pause_ns = PAUSE_FIRST_NS;
	int error = 0;

	list_sort(list);
	mark_standing(text, list, arm);
	while (undone(list)) {
		struct janitor_outcome outcome = { 0 };

		error = janitor_run(text, list->sites, list->count, arm, patience_ms, &outcome);
		result->stopped_ns += outcome.stopped_ns;
		if (outcome.done_ns)
			result->done_ns = outcome.done_ns;
		if ((error && !is_passing(error)) || !undone(list) ||
		    lock_now_ns() - begin_ns >= (is_starved(error) ? STARVED_TIMES : 1) * wait_ns)
			break;
		/* those that did stop are to run for as long as they stood still */
		kernel_sleep_ns((long)outcome.stopped_ns > pause_ns ? (long)outcome.stopped_ns
								    : pause_ns);
		pause_ns = pause_ns < PAUSE_LAST_NS ? pause_ns * 2 : pause_ns;
		patience_ms = patience_ms < STOP_LAST_MS ? patience_ms * 2 : patience_ms;
	}
	for (size_t i = 0; i < list->count; i++) {
		struct janitor_site *site = &list->sites[i];
		struct detour *detour = site->detour;

		/* a janitor that was killed may have stored it: then it stands, inert */
		if (!site->is_done && stands(text, detour)) {
			detour->is_armed = 1;
			may_be_inert = 1;
		}
		if (site->is_done) {
			result->sites += detour->is_armed != arm && !detour_is_guard(detour);
			detour->is_armed = (uint8_t)arm;
		}
		detour->error = site->is_done ? 0 : site->error ? site->error : error;
		memcpy(detour->found, site->found, sizeof detour->found);
	}
	return error;
}

/* ---- arming ---- */

static void tell_refused(const struct detour *detour, unsigned int lane)
{
	struct refusal refusal = { .error = detour->error, .site = &detour->sites[0] };

	memcpy(refusal.expected, detour->record->original, sizeof refusal.expected);
	memcpy(refusal.found, detour->found, sizeof refusal.found);
	if (registry_listener)
		registry_listener->refused(lane, &refusal);
}

/* The event at the point is wanted unless the return alone is. */
static int has_event(const struct detour *detour, int which)
{
	uint8_t flags = detour->record->flags;

	if (detour_is_guard(detour))
		return 0;
	return which ? flags & DETOUR_RETURN : !(flags & DETOUR_SECRETIVE);
}

/* Ids must be known before the first hit. -EPIPE: the session could not be told. */
static int tell_events(unsigned int lane)
{
	for (struct detour *d = detour_first(); d; d = d->next) {
		for (int i = 0; i < 2 && d->prepared & 1u << lane; i++) {
			struct variant *event = &d->events[i];

			if (!has_event(d, i) || event->ids[lane] != EVENT_ID_NONE)
				continue;
			event->ids[lane] = registry_next_id(lane);
			if (registry_listener)
				registry_listener->event(lane, event->ids[lane], event);
		}
	}
	return registry_listener && registry_listener->flush() & 1u << lane ? -EPIPE : 0;
}

static int publish(struct detour *detour)
{
	int error = 0;

	for (int i = 0; i < 2 && !error; i++) {
		if (!has_event(detour, i))
			continue;
		detour->events[i].lanes = detour->lanes;
		error = plan_publish(&detour->events[i]);
	}
	return error;
}

/* Plans for those that still want it; never fails for nobody. */
static void withdraw(struct detour *detour, uint32_t lane_bit)
{
	detour->lanes &= ~lane_bit;
	if (publish(detour)) {
		/* no memory for a smaller plan: rather none */
		plan_drop(&detour->events[0]);
		plan_drop(&detour->events[1]);
	}
	may_be_inert |= detour->head->is_armed && !chain_is_wanted(detour);
}

static int is_to_arm(const struct detour *detour)
{
	return detour->is_listed;
}

/*
 * An armed one is looked at again: its module may have been closed and opened since. Returns whether there are
 * guards among them.
 */
static int take_prepared(unsigned int lane)
{
	uint32_t bit = 1u << lane;
	int guards = 0;

	for (struct detour *d = detour_first(); d; d = d->next) {
		d->in_batch = d->is_listed = 0;
		if (!(d->prepared & bit))
			continue;
		d->prepared &= ~bit;
		d->lanes |= bit;
		d->error = publish(d);
		d->in_batch = !d->error;
		d->head->is_listed |= d->in_batch; /* it came before its members */
		guards |= detour_is_guard(d);
		if (d->error)
			withdraw(d, bit);
	}
	return guards;
}

/* A jump's result is the result of all events that were to be armed there. A guard is no event: it is not reported. */
static void settle_chain(const struct janitor_site *site, unsigned int lane,
			 struct detour_result *result)
{
	for (struct detour *d = site->detour; d; d = d->next_member) {
		int is_event = !detour_is_guard(d);

		if (!d->in_batch)
			continue;
		if (site->is_done) {
			result->markers += (uint32_t)is_event;
			continue;
		}
		d->error = site->detour->error;
		memcpy(d->found, site->found, sizeof d->found);
		result->refused += (uint32_t)is_event;
		if (is_event)
			tell_refused(d, lane);
		withdraw(d, 1u << lane);
	}
}

int detour_commit(const struct text *text, unsigned int lane, struct detour_result *result)
{
	int error = tell_events(lane);
	struct list list;

	if (!error && take_prepared(lane))
		sigtrap_guard();
	if (!error)
		error = list_make(&list, is_to_arm);
	if (error) {
		detour_release(lane);
		return error;
	}
	exits_collect(&list);
	error = try_all(text, &list, 1, ARM_MS, result);
	for (size_t i = 0; i < list.count; i++)
		settle_chain(&list.sites[i], lane, result);
	list_free(&list);
	/* told one by one: the request as a whole has done what it could */
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

	if (list_make(&list, which))
		return 1;
	if (list.count)
		error = try_all(text, &list, 0, timeout_ms, result);
	for (size_t i = 0; i < list.count; i++) {
		struct janitor_site *site = &list.sites[i];

		/* somebody else's bytes, or no memory at all: nothing there is ours any more */
		if (!site->is_done && site->error == -EFAULT)
			site->detour->is_armed = 0;
		left += site->detour->is_armed;
		waits |= site->detour->is_armed &&
			 (is_passing(error) || site->error == -WM_E_DETOUR_BUSY);
	}
	list_free(&list);
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
	if (sigtrap_end(text) == 0) {
		left += disarm(text, is_inert_guard, timeout_ms, result);
		sigtrap_unguard();
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

void detour_module_came(const struct module *module)
{
	/* greenlets and what they are made of, coroutines; Ruby's callcc, Scheme's call/cc */
	static const char *const once[] = { "greenlet", "pypy",	   "stacklet",
					    "tealet",	"libaco.", "libco." };
	static const char *const many[] = { "/continuation.so", "libguile", "libracket" };

	for (size_t i = 0; module->path && i < sizeof once / sizeof once[0]; i++) {
		if (strstr(module->path, once[i]))
			return_stacks_move(RETURN_STACKS_ONCE);
	}
	for (size_t i = 0; module->path && i < sizeof many / sizeof many[0]; i++) {
		if (strstr(module->path, many[i]))
			return_stacks_move(RETURN_STACKS_MANY);
	}
}

void detour_module_gone(const struct module *module)
{
	for (struct detour *d = detour_first(); d; d = d->next) {
		if (!is_in(module, d->record->address))
			continue;
		d->is_armed = 0;
		d->is_counted_up = 0;
		d->prepared = 0;
		d->lanes = 0;
		d->is_gone = 1;
		plan_drop(&d->events[0]);
		plan_drop(&d->events[1]);
	}
}

uint32_t detour_forked(int whole, uint32_t lanes)
{
	uint32_t counts = 0;

	for (struct detour *d = detour_first(); d;
	     d = __atomic_load_n(&d->next, __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < 2; i++) {
			counts |= d->events[i].lanes & lanes;
			if (!(d->events[i].lanes & lanes) && whole)
				plan_drop(&d->events[i]);
			else if (!(d->events[i].lanes & lanes))
				__atomic_store_n(&d->events[i].hit.plan, NULL, __ATOMIC_RELEASE);
			d->events[i].lanes = 0;
		}
		d->inherited = whole ? d->lanes : 0;
		d->lanes = d->prepared = 0;
		may_be_inert |= d->is_armed;
	}
	sigtrap_forked();
	idle_until_ns = lock_now_ns() + (counts ? COUNTING_NS : IDLE_NS);
	return counts;
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
		d->lanes |= 1u << to;
		if (publish(d))
			withdraw(d, 1u << to);
		else
			count += !detour_is_guard(d);
	}
	return count;
}
