/* SPDX-License-Identifier: MIT */
/* Rules of sessions, probes of the program, modules that come: all end in a change. */
#include "inside/marker/marker.h"

#include "inside/marker/cost.h"
#include "inside/marker/predicates.h"
#include "inside/marker/rule.h"
#include "inside/marker/spans.h"
#include "inside/runtime/heap.h"

#include <waymark/error.h>

#include <errno.h>
#include <string.h>

static int prearmed;

/*
 * Sites that are armed without a session that wants them: inherited by fork, or changed by others
 * meanwhile.
 */
static int may_be_stuck;

/* by the child's session: lanes that it has of its parent's */
static uint32_t replaced[SESSIONS_MAX];

void registry_replace(unsigned int lane, uint32_t of)
{
	replaced[lane] = of;
}

uint32_t registry_replaced(unsigned int lane)
{
	return replaced[lane];
}

int registry_is_prearmed(void)
{
	return prearmed;
}

void registry_expect_stuck(void)
{
	may_be_stuck = 1;
}

/* Bring one variant's part of the change to what the lane wants of it. */
static void consider(struct change *change, struct variant *variant, unsigned int lane, int want)
{
	uint32_t bit = 1u << lane;
	uint32_t wanted = variant->site_count && want && predicates_want(variant, lane) ? bit : 0;

	if ((variant->lanes & bit) == wanted)
		return;
	change_add(change, variant);
	variant->lanes_next = (variant->lanes_next & ~bit) | wanted;
	if (wanted)
		variant->lanes_next &= ~replaced[lane];
}

/*
 * The globs of one request. Those that are plain names are found by the registry's table; the rest
 * is tried on every marker.
 */
struct wish {
	const char *globs;
	uint32_t count;
	const char **patterns;
	uint32_t pattern_count;
};

static int wish_make(struct wish *wish, const char *globs, uint32_t count)
{
	const char *glob = globs;

	*wish = (struct wish){ .globs = globs, .count = count };
	if (count > RULES_MAX)
		return -E2BIG;
	for (uint32_t i = 0; i < count; i++, glob += strlen(glob) + 1) {
		int error = rule_check(glob);

		if (error)
			return error;
		wish->pattern_count += !rule_is_plain(glob);
	}
	if (!wish->pattern_count)
		return 0;
	wish->patterns = heap_alloc(wish->pattern_count * sizeof *wish->patterns);
	if (!wish->patterns)
		return -ENOMEM;
	glob = globs;
	for (uint32_t i = 0, at = 0; i < count; i++, glob += strlen(glob) + 1) {
		if (!rule_is_plain(glob))
			wish->patterns[at++] = glob;
	}
	return 0;
}

/* To disarm must not depend on there being memory. */
static const char *everything[] = { "*:*" };

static void wish_release(struct wish *wish)
{
	if (wish->patterns == everything)
		return;
	heap_free(wish->patterns, wish->pattern_count * sizeof *wish->patterns);
}

static int has_pattern_for(const struct wish *wish, const struct variant *variant)
{
	for (uint32_t i = 0; i < wish->pattern_count; i++) {
		if (rule_match(wish->patterns[i], variant->name))
			return 1;
	}
	return 0;
}

/*
 * All variants that it concerns. Its rules are the latest and agree, so whatever they take is
 * settled.
 */
static void consider_wish(struct change *change, const struct wish *wish, unsigned int lane,
			  int want)
{
	const char *glob = wish->globs;

	for (uint32_t i = 0; i < wish->count; i++, glob += strlen(glob) + 1) {
		struct variant *variant = NULL;

		while (rule_is_plain(glob) && (variant = registry_next_named(variant, glob)))
			consider(change, variant, lane, want);
	}
	for (struct variant *variant = (struct variant *)registry_first();
	     variant && wish->pattern_count; variant = variant->next) {
		if (has_pattern_for(wish, variant))
			consider(change, variant, lane, want);
	}
}

/* How many markers of those that it names the lane has now. */
static uint32_t count_armed(const struct wish *wish, unsigned int lane)
{
	const char *glob = wish->globs;
	uint32_t markers = 0;

	/* a name may occur there twice, and a pattern may match it too */
	for (uint32_t i = 0; i < wish->count; i++, glob += strlen(glob) + 1) {
		struct variant *variant = NULL;

		while (rule_is_plain(glob) && (variant = registry_next_named(variant, glob)))
			variant->is_named = 1;
	}
	for (struct variant *v = (struct variant *)registry_first(); v; v = v->next) {
		if (v->lanes & 1u << lane && span_half(v, lane) != SPAN_HALF)
			markers += v->is_named || has_pattern_for(wish, v);
		v->is_named = 0;
	}
	return markers;
}

static int add_rules(const struct wish *wish, unsigned int lane, int want)
{
	const char *glob = wish->globs;
	int error = 0;

	for (uint32_t i = 0; !error && i < wish->count; i++, glob += strlen(glob) + 1)
		error = rule_add(lane, glob, want);
	return error;
}

int registry_rule(const struct text *text, unsigned int lane, const char *globs, uint32_t count,
		  int want, struct change *change)
{
	struct wish wish;
	int error;

	if (!count && !want) {
		rule_clear(lane);
		cost_clear(lane);
		predicates_clear(lane);
		wish = (struct wish){ .patterns = everything, .pattern_count = 1 };
		error = 0;
	} else {
		error = wish_make(&wish, globs, count);
		if (!error)
			error = add_rules(&wish, lane, want);
		if (!error && want)
			error = spans_make(lane);
	}
	if (!error) {
		consider_wish(change, &wish, lane, want);
		change->lane = (int)lane;
		error = change_commit(change, text);
		if (want)
			change->markers = count_armed(&wish, lane);
	}
	wish_release(&wish);
	return error;
}

/* A variant of the same name, kind and types; only their fields' names differ. */
static int is_alike(const struct variant *variant, char kind, const uint8_t types[16])
{
	return variant->kind == kind && !memcmp(variant->types, types, sizeof variant->types);
}

/*
 * A program's probe is called at all sites of its marker, so variants that are alike have the same
 * ones.
 */
static int inherit_probes(struct variant *variant)
{
	struct variant *v = NULL;

	while (!variant->probe_count_next && (v = registry_next_named(v, variant->name))) {
		if (is_alike(v, variant->kind, variant->types) && v->probe_count_next)
			return probelist_copy(variant, v);
	}
	return 0;
}

/* What everybody wants of a variant in a module that is new. */
static int consider_new(struct change *change, struct variant *variant)
{
	int error;

	if (variant->in_change)
		return 0;
	change_add(change, variant);
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		if (rule_any(lane) && rule_wants(lane, variant->name) &&
		    predicates_want(variant, lane))
			variant->lanes_next = (variant->lanes_next | 1u << lane) & ~replaced[lane];
	}
	error = probelist_pending_claim(variant);
	if (!error)
		error = inherit_probes(variant);
	if (error)
		probelist_settle(variant, 0);
	return error;
}

/* Report a site whose fields disagree with those of a live marker, and leave it alone. */
static void refuse_rivals(struct module *module)
{
	for (uint32_t i = 0; registry_listener && i < module->site_count; i++) {
		struct site *site = &module->sites[i];
		const struct variant *rival = registry_rival(site->variant);

		if (site->refused || !rival || !rival->lanes)
			continue;
		site->refused = 1;
		for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
			if (rival->lanes & 1u << lane)
				registry_listener->refused(
					lane, &(struct refusal){ .error = -WM_E_FIELD_TYPES,
								 .site = site,
								 .other = rival->sites });
		}
	}
}

/* A begin or an end that is new: the other one may have been refused alone. */
static int consider_spans(struct change *change)
{
	int error = 0;

	for (unsigned int lane = 0; !error && lane < SESSIONS_MAX; lane++)
		error = rule_any(lane) ? spans_make(lane) : 0;
	for (struct variant *v = (struct variant *)registry_first(); v && !error; v = v->next) {
		if (!v->begin || (!v->begin->in_change && !v->end->in_change))
			continue;
		error = consider_new(change, v);
		if (!error)
			error = consider_new(change, v->begin);
		if (!error)
			error = consider_new(change, v->end);
	}
	return error;
}

int registry_follow(const struct text *text)
{
	struct change change = { .lane = -1 };
	int error = 0;

	for (struct module *module = (struct module *)registry_modules(); module;
	     module = module->next) {
		if (!module->fresh)
			continue;
		module->fresh = 0;
		if (registry_listener)
			registry_listener->module(module, 0);
		if (module->error)
			continue;
		refuse_rivals(module);
		for (uint32_t i = 0; !error && i < module->site_count; i++)
			error = consider_new(&change, module->sites[i].variant);
	}
	if (change.variants && !error)
		error = consider_spans(&change);
	if (change.variants && !error)
		error = change_commit(&change, text);
	else
		change_commit(&change, text);
	probelist_pending_settle();
	return error;
}

uint32_t registry_retry(const struct text *text)
{
	struct change change = { .lane = -1 };
	uint32_t left = 0;

	if (!may_be_stuck)
		return 0;
	for (struct variant *v = (struct variant *)registry_first(); v; v = v->next) {
		if (v->armed_count && !v->hit.plan)
			change_add(&change, v);
	}
	change_commit(&change, text);
	for (const struct variant *v = registry_first(); v; v = v->next) {
		if (!v->hit.plan && (v->probe_count || !(prearmed && v->kind != 'i')))
			left += v->armed_count;
	}
	may_be_stuck = left != 0;
	return left;
}

int registry_prearm(const struct text *text)
{
	struct change change = { .lane = -1 };

	prearmed = 1;
	for (struct variant *v = (struct variant *)registry_first(); v; v = v->next)
		change_add(&change, v);
	return change_commit(&change, text);
}

static int change_probes(const struct text *text, struct variant *variant,
			 int (*change_list)(struct variant *, const struct plan_probe *),
			 const struct plan_probe *probe)
{
	struct change change = { .lane = -1 };
	int error;

	change_add(&change, variant);
	error = variant->error = change_list(variant, probe);
	if (change_commit(&change, text) && !error)
		error = -EFAULT;
	return error ? error : variant->error;
}

int registry_probe_add(const struct text *text, const char *name, char kind,
		       const uint8_t types[16], const struct plan_probe *probe, int pending)
{
	int error = -WM_E_NO_MARKER;
	struct variant *v = NULL, *failed;

	while ((!error || error == -WM_E_NO_MARKER || error == -WM_E_FIELD_TYPES) &&
	       (v = registry_next_named(v, name))) {
		if (v->kind != kind || !v->site_count)
			continue;
		if (is_alike(v, kind, types))
			error = change_probes(text, v, probelist_with, probe);
		else if (error)
			error = -WM_E_FIELD_TYPES;
	}
	failed = v;
	/* it is at all sites or at none */
	for (v = NULL; failed && (v = registry_next_named(v, name)) != failed;) {
		if (is_alike(v, kind, types))
			change_probes(text, v, probelist_without, probe);
	}
	if (error == -WM_E_NO_MARKER && pending) {
		error = probelist_pending_add(name, kind, types, probe);
		return error ? error : 1;
	}
	return error;
}

int registry_probe_remove(const struct text *text, const char *name, char kind,
			  const struct plan_probe *probe)
{
	int result = -ENOENT;

	if (!probelist_pending_remove(name, kind, probe))
		return 0;
	for (struct variant *v = NULL; (v = registry_next_named(v, name));) {
		int error = -ENOENT; /* another variant may have it */

		if (v->kind == kind && v->probe_count)
			error = change_probes(text, v, probelist_without, probe);
		/* where that failed it may still be called */
		if (error != -ENOENT && (result == -ENOENT || !result))
			result = error;
	}
	return result;
}

int registry_probe_status(const char *name, char kind, const uint8_t types[16],
			  const struct plan_probe *probe)
{
	int sites = 0, error = 0;

	for (const struct variant *v = NULL; (v = registry_next_named(v, name));) {
		if (v->kind != kind || !v->site_count)
			continue;
		if (!is_alike(v, kind, types))
			return -WM_E_FIELD_TYPES;
		if (probelist_has(v, probe))
			sites += (int)v->armed_count;
		else
			error = v->error ? v->error : -WM_E_SITE_CHANGED;
	}
	return error ? error : sites;
}

int registry_waits(void)
{
	const struct variant *variant = registry_first();

	while (variant && !variant->probe_count)
		variant = variant->next;
	return variant || probelist_pending_any();
}
