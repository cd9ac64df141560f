/* SPDX-License-Identifier: MIT */
/*
 * Carrying out a change: the batch protocol of inside/patch/batch.h over markers.
 *
 * What is refused is refused whole: if one site of a marker that is not live yet is not as the
 * build left it, or if sites of one name disagree on their fields, then no site of that marker is
 * armed for this request, and each bad site is reported by name. A marker that is live already (for
 * another session, or in other modules) stays so; of new sites, only the bad ones are left out. So
 * is a site that changes between 1 and 4: set_armed().
 *
 *   arm      1 check, 2 report the event's id, publish the plan, 3-5 batch_commit()
 *   disarm   1 check, 3-5 batch_commit(), then take the plan away; freed after a grace period
 */
#include "inside/marker/marker.h"

#include "abi/site.h"
#include "inside/marker/cost.h"
#include "inside/marker/handlers.h"
#include "inside/marker/predicates.h"
#include "inside/marker/spans.h"
#include "inside/marker/sums.h"
#include "inside/patch/sort.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"
#include "inside/store/event_store.h"

#include <waymark/error.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* The sites to be written, in order of address. */
struct list {
	struct batch_site *sites;
	size_t count, room;
};

void change_add(struct change *change, struct variant *variant)
{
	if (variant->in_change)
		return;
	variant->in_change = 1;
	variant->error = 0;
	variant->lanes_next = variant->lanes;
	variant->probes_next = variant->probes;
	variant->probe_count_next = variant->probe_count;
	variant->was_live = variant->lanes || variant->probe_count;
	variant->lanes_before = variant->lanes;
	/* in order: what was found in order of address need not be sorted again */
	variant->next_in_change = NULL;
	if (change->variants)
		change->last->next_in_change = variant;
	else
		change->variants = variant;
	change->last = variant;
}

static int wants_to_live(const struct variant *variant)
{
	return variant->lanes_next || variant->probe_count_next;
}

/* Whether its sites are to be armed, once its lanes_next and probes_next are what counts. */
static int variant_wants_text(const struct variant *variant)
{
	return wants_to_live(variant) || (registry_is_prearmed() && variant->kind != 'i');
}

/* Whom a refusal concerns: the sessions that would be new, else those that have the marker. */
static void report_refused(const struct variant *variant, struct refusal *refusal)
{
	uint32_t lanes = variant->lanes_next & ~variant->lanes;

	lanes = lanes ? lanes : variant->lanes;
	for (unsigned int lane = 0; registry_listener && lane < SESSIONS_MAX; lane++) {
		if (lanes & 1u << lane)
			registry_listener->refused(lane, refusal);
	}
}

static void refuse_whole(struct change *change, struct variant *variant, int error)
{
	variant->error = error;
	change->refused += variant->site_count;
	if (variant->sites && variant->lanes_next & ~variant->lanes)
		report_refused(variant, &(struct refusal){ .error = error,
							   .site = variant->sites,
							   .whole = 1 });
}

/* Only one variant of a name may be live. */
static void check_rivals(struct change *change)
{
	for (struct variant *variant = change->variants; variant;
	     variant = variant->next_in_change) {
		const struct variant *rival;

		if (variant->was_live || !wants_to_live(variant) || !variant->sites)
			continue;
		rival = registry_rival(variant);
		if (!rival)
			continue;
		variant->error = -WM_E_FIELD_TYPES;
		change->refused += variant->site_count;
		report_refused(variant, &(struct refusal){ .error = variant->error,
							   .site = variant->sites,
							   .other = rival->sites,
							   .whole = 1 });
	}
}

/* Whether some site of it may have to change. */
static int may_change(const struct variant *variant, int arm)
{
	return !variant->error && !variant_wants_text(variant) == !arm;
}

/* For a new session or probe also an armed site: another tool may have made it dormant. */
static int is_to_change(const struct site *site, int arm)
{
	const struct variant *variant = site->variant;

	if (!arm)
		return site->armed;
	return site->address && !site->conflict &&
	       (!site->armed ||
		(!site->portable && (variant->lanes_next & ~variant->lanes ||
				     variant->probe_count_next > variant->probe_count)));
}

static int list_make(struct list *list, const struct change *change, int arm)
{
	*list = (struct list){ 0 };
	for (const struct variant *v = change->variants; v; v = v->next_in_change) {
		if (may_change(v, arm))
			list->room += v->site_count;
	}
	if (!list->room)
		return 0;
	list->sites = heap_alloc(list->room * sizeof *list->sites);
	if (!list->sites)
		return -ENOMEM;
	for (struct variant *v = change->variants; v; v = v->next_in_change) {
		for (struct site *site = may_change(v, arm) ? v->sites : NULL; site;
		     site = site->next) {
			if (!is_to_change(site, arm))
				continue;
			list->sites[list->count++] = (struct batch_site){
				.address = site->portable
						   ? site->record +
							     offsetof(struct wm_record, armed)
						   : site->address,
				.displacement = site->displacement,
				.portable = site->portable,
				.prot = site->prot,
				.owner = site,
			};
		}
	}
	return sort_by_address(list->sites, list->count, sizeof *list->sites);
}

static void list_free(struct list *list)
{
	heap_free(list->sites, list->room * sizeof *list->sites);
}

/* Report a site that is left as it is. If it was to be disarmed, the next tick tries again. */
static void refuse_site(struct change *change, const struct batch_site *bad, int arm)
{
	const struct site *site = bad->owner;
	struct refusal refusal = { .error = bad->error ? bad->error : -WM_E_SITE_RESTORED,
				   .site = site };

	change->refused++;
	if (!arm)
		registry_expect_stuck();
	batch_bytes(bad, !arm, refusal.expected);
	memcpy(refusal.found, bad->found, sizeof refusal.found);
	report_refused(site->variant, &refusal);
}

/* Whether another tool made an armed site dormant. Then the trace lacks hits: report it. */
static int was_restored(const struct batch_site *found, int arm)
{
	return !arm && !found->error && !found->portable && found->found[0] == SITE_DORMANT;
}

/* After the check: a marker that isn't live yet is refused whole, else the site alone. */
static void judge(struct change *change, struct list *list, int arm)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct batch_site *bad = &list->sites[i];
		const struct site *site = bad->owner;

		/*
		 * nothing is there: its module went a moment ago, and the next scan will find that
		 */
		if (bad->error == -EFAULT || (!bad->error && !was_restored(bad, arm)))
			continue;
		if (arm && !site->variant->was_live)
			site->variant->error = bad->error;
		refuse_site(change, bad, arm);
	}
}

/* Drop from the list what was refused, and what is armed: a failed batch must not disarm that. */
static void list_weed(struct list *list, int arm)
{
	size_t kept = 0;

	for (size_t i = 0; i < list->count; i++) {
		const struct site *site = list->sites[i].owner;
		int is_done = arm && site->armed && list->sites[i].found[0] == SITE_ARMED;

		if (!list->sites[i].error && !site->variant->error && !is_done)
			list->sites[kept++] = list->sites[i];
	}
	list->count = kept;
}

/* The callers are the session's once its event has an id. */
static int check_sums(const struct variant *variant, unsigned int callers,
		      const struct sum_field *fields, unsigned int count)
{
	static struct variant likely;
	static struct plan_sums sums;

	likely = *variant;
	likely.callers[0] = (uint8_t)callers;
	return sums_bind(&likely, 0, fields, count, &sums);
}

/* Whether a session can have its counts, callers and predicates at a marker. 0 or an error. */
static int check_wishes(const struct variant *variant, unsigned int lane)
{
	static struct plan_test tests[PLAN_TESTS_MAX];
	unsigned int callers, costs = cost_wanted(lane, variant->name, &callers);
	const struct sum_field *fields;
	int count;

	if (!handlers_fit(variant, lane))
		return -WM_E_FIELD_TYPES;
	/* the span's event is checked for it */
	if (span_half(variant, lane) == SPAN_HALF)
		return 0;
	if (variant->begin && span_check(variant, lane))
		return -ENOTSUP;
	if (!cost_fits(costs, callers, variant->types))
		return -WM_E_EVENT_ROOM;
	count = predicates_bind(variant, lane, tests);
	if (count >= 0 && variant->begin)
		count = predicates_bind(variant->begin, lane, tests);
	if (count < 0)
		return count;
	count = predicates_sums(variant, lane, &fields);
	if (count == -ENOENT)
		return 0;
	return count < 0 ? count : check_sums(variant, callers, fields, (unsigned int)count);
}

/* A span is refused: its begin and end are not armed for it alone. */
static void leave_halves(const struct variant *span, unsigned int lane)
{
	if (span->begin && span_half(span->begin, lane) == SPAN_HALF)
		span->begin->lanes_next &= ~(1u << lane);
	if (span->begin && span_half(span->end, lane) == SPAN_HALF)
		span->end->lanes_next &= ~(1u << lane);
}

/*
 * A session whose counts and callers find no room among the event's fields does not get the marker,
 * nor one whose predicates ask for other fields.
 */
static void check_sessions(struct change *change)
{
	for (struct variant *variant = change->variants; variant;
	     variant = variant->next_in_change) {
		uint32_t added = variant->lanes_next & ~variant->lanes;

		for (unsigned int lane = 0; !variant->error && lane < SESSIONS_MAX; lane++) {
			int error = added & 1u << lane ? check_wishes(variant, lane) : 0;

			if (!error)
				continue;
			variant->lanes_next &= ~(1u << lane);
			leave_halves(variant, lane);
			if (!variant->was_live && !wants_to_live(variant))
				variant->error = error;
			change->refused += variant->site_count;
			if (registry_listener)
				registry_listener->refused(
					lane, &(struct refusal){ .error = error,
								 .site = variant->sites,
								 .whole = 1 });
		}
	}
}

/* Give the ids that new sessions need, and report them, before the first hit can be recorded. */
static void report_events(struct change *change)
{
	uint32_t deaf;

	for (struct variant *variant = change->variants; variant;
	     variant = variant->next_in_change) {
		uint32_t added = variant->lanes_next & ~variant->lanes;

		for (unsigned int lane = 0; !variant->error && lane < SESSIONS_MAX; lane++) {
			unsigned int costs, callers;

			if (!(added & 1u << lane) || span_half(variant, lane) == SPAN_HALF)
				continue;
			/* an event with other counts or callers is another event */
			costs = cost_wanted(lane, variant->name, &callers);
			if (variant->ids[lane] != EVENT_ID_NONE && variant->costs[lane] == costs &&
			    variant->callers[lane] == callers)
				continue;
			variant->costs[lane] = (uint16_t)costs;
			variant->callers[lane] = (uint8_t)callers;
			variant->ids[lane] = registry_next_id(lane);
			if (registry_listener)
				registry_listener->event(lane, variant->ids[lane], variant);
		}
	}
	deaf = registry_listener ? registry_listener->flush() : 0;
	for (struct variant *variant = change->variants; deaf && variant;
	     variant = variant->next_in_change) {
		uint32_t added = variant->lanes_next & ~variant->lanes;

		variant->lanes_next &= ~(added & deaf);
		if (!variant->error && (added & deaf) && !variant->was_live &&
		    !wants_to_live(variant))
			variant->error = -EPIPE;
	}
}

/* No memory for a smaller plan: rather none. The sessions that lose it hear so. */
static void lose(struct variant *variant)
{
	variant->error = -ENOMEM;
	if (variant->sites)
		report_refused(variant, &(struct refusal){ .error = -ENOMEM,
							   .site = variant->sites,
							   .whole = 1 });
	variant->lanes = variant->lanes_next = 0;
	planning_drop(variant);
	registry_expect_stuck();
}

/*
 * A refused variant keeps the state that it had, but not a session that leaves: its store goes, so
 * no hit may find it in a plan.
 */
static void settle(struct variant *variant)
{
	uint32_t leaving = variant->lanes & ~variant->lanes_next;

	if (!variant->error && !leaving)
		return;
	variant->lanes &= ~leaving;
	variant->lanes_next = variant->lanes;
	probelist_settle(variant, 0);
	if (leaving && planning_publish(variant))
		lose(variant);
	if (leaving && !variant->lanes)
		registry_expect_stuck();
}

/*
 * Make live, or change what is live. A marker that is to be dormant keeps its plan until its text
 * is dormant. Where there is no memory for the plan, everything stays as before: a probe that is
 * still called is not forgotten.
 */
static void publish(struct change *change)
{
	for (struct variant *variant = change->variants; variant;
	     variant = variant->next_in_change) {
		struct plan_probe *probes = variant->probes;
		uint32_t count = variant->probe_count, lanes = variant->lanes;

		if (variant->error || !wants_to_live(variant))
			continue;
		variant->lanes = variant->lanes_next;
		variant->probes = variant->probes_next;
		variant->probe_count = variant->probe_count_next;
		if (planning_publish(variant)) {
			variant->lanes = lanes;
			variant->probes = probes;
			variant->probe_count = count;
			refuse_whole(change, variant, -ENOMEM);
		} else if (probes != variant->probes) {
			heap_free(probes, count * sizeof *probes);
		}
	}
}

/* Take back what publish() did for a marker that was not live and has no armed site. */
static void withdraw(struct variant *variant, int error)
{
	variant->error = error;
	variant->lanes = variant->lanes_next = 0;
	heap_free(variant->probes, variant->probe_count * sizeof *variant->probes);
	variant->probes = variant->probes_next = NULL;
	variant->probe_count = variant->probe_count_next = 0;
	planning_drop(variant);
}

/* Leave new sessions out of a marker that was live before: their request fails. */
static void leave_out_new(struct variant *variant)
{
	uint32_t lanes = variant->lanes;

	variant->error = -EFAULT;
	variant->lanes &= variant->lanes_before;
	if (variant->lanes != lanes && planning_publish(variant))
		variant->lanes = lanes; /* no memory: the plan has them until they leave */
}

static void unpublish(struct change *change, int all_new)
{
	for (struct variant *variant = change->variants; variant;
	     variant = variant->next_in_change) {
		if (all_new && !variant->was_live && !variant->error) {
			withdraw(variant, -EFAULT);
			continue;
		}
		if (all_new && !variant->error && wants_to_live(variant)) {
			leave_out_new(variant);
			continue;
		}
		if (variant->error || wants_to_live(variant))
			continue;
		variant->lanes = variant->lanes_next;
		probelist_settle(variant, 1);
		planning_drop(variant);
	}
}

/*
 * A module that was closed and opened again at the same place has the same bytes but fresh records,
 * which lead nowhere: its sites are as good as gone until the next scan.
 */
static void leave_out_reopened(struct list *list, const struct text *text)
{
	const struct module *last = NULL;
	int is_current = 1;

	for (size_t i = 0; i < list->count; i++) {
		const struct site *site = list->sites[i].owner;

		if (site->module != last) {
			last = site->module;
			is_current = registry_is_current(last, text);
		}
		if (!is_current)
			list->sites[i].error = -EFAULT;
	}
}

/*
 * A site that something else took after the check (a uprobe, a debugger's breakpoint) is left out
 * alone. A marker that has no site then is refused whole: else it would be live and never hit.
 */
static int set_armed(struct change *change, struct list *list, const struct text *text, int arm)
{
	int error = batch_commit(text, list->sites, list->count, arm);

	for (size_t i = 0; !error && i < list->count; i++) {
		struct site *site = list->sites[i].owner;

		if (list->sites[i].error) {
			refuse_site(change, &list->sites[i], arm);
			continue;
		}
		change->sites += site->armed != arm;
		site->variant->armed_count += (uint32_t)arm - site->armed;
		site->armed = (uint8_t)arm;
		restored_end(site);
		if (!site->variant->foreign_sites)
			site->variant->held_ns = lock_now_ns();
	}
	restored_changed();
	for (size_t i = 0; !error && arm && i < list->count; i++) {
		struct variant *variant = ((struct site *)list->sites[i].owner)->variant;

		if (list->sites[i].error && !variant->was_live && !variant->armed_count &&
		    !variant->error)
			withdraw(variant, list->sites[i].error);
	}
	return error;
}

static int arm(struct change *change, const struct text *text)
{
	struct list list;
	int error = list_make(&list, change, 1);

	for (struct variant *v = error ? change->variants : NULL; v; v = v->next_in_change) {
		if (may_change(v, 1))
			refuse_whole(change, v, error);
	}
	if (!error) {
		batch_check(text, list.sites, list.count, 1); /* 1 */
		leave_out_reopened(&list, text);
		judge(change, &list, 1);
		report_events(change); /* 2 */
		publish(change);
		list_weed(&list, 1);
		error = set_armed(change, &list, text, 1); /* 3 - 5 */
		if (error)
			unpublish(change, 1);
	}
	list_free(&list);
	return error;
}

static int disarm(struct change *change, const struct text *text)
{
	struct list list;
	int error = list_make(&list, change, 0);

	if (!error) {
		batch_check(text, list.sites, list.count, 0); /* 1 */
		leave_out_reopened(&list, text);
		judge(change, &list, 0);
		/* what can't be disarmed stays armed, with no plan: harmless */
		list_weed(&list, 0);
		error = set_armed(change, &list, text, 0); /* 3 - 5 */
	}
	if (error)
		registry_expect_stuck();
	unpublish(change, 0);
	list_free(&list);
	return error;
}

int change_commit(struct change *change, const struct text *text)
{
	int error;

	check_rivals(change);
	check_sessions(change);
	error = arm(change, text);
	if (!error)
		error = disarm(change, text);
	change->done_ns = lock_now_ns();
	if (change->lane >= 0)
		change->ticks = store_ticks((unsigned int)change->lane);
	while (change->variants) {
		struct variant *variant = change->variants;

		change->variants = variant->next_in_change;
		variant->next_in_change = NULL;
		variant->in_change = 0;
		settle(variant);
		change->markers += !variant->error;
	}
	return error;
}
