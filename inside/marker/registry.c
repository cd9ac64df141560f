/* SPDX-License-Identifier: MIT */
/* Variants, and the modules that contain them. */
#include "inside/marker/marker.h"

#include "abi/site.h"
#include "base/level.h"
#include "inside/marker/cost.h"
#include "inside/marker/predicates.h"
#include "inside/marker/hit.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/rule.h"
#include "inside/runtime/heap.h"
#include "inside/runtime/lock.h"

#include <errno.h>
#include <link.h>
#include <string.h>

#define BUCKETS 4096u

static struct variant *buckets[BUCKETS];
static struct variant *first, **last = &first;
static struct module *modules;
static uint32_t next_ids[SESSIONS_MAX];
static int abandoned; /* a child forked while another thread was in the middle of a change */

/*
 * The target of records whose sites disagree on the fields: one record does not show which of its
 * sites was hit. Never has a plan.
 */
static struct marker nothing;

const struct registry_listener *registry_listener;
static struct registry_observer *observers;

void registry_listen(const struct registry_listener *listener)
{
	registry_listener = listener;
}

void registry_observe(struct registry_observer *observer)
{
	struct registry_observer **link = &observers;

	while (*link)
		link = &(*link)->next;
	*link = observer;
}

const struct variant *registry_first(void)
{
	return first;
}

const struct module *registry_modules(void)
{
	return modules;
}

uint32_t registry_next_id(unsigned int lane)
{
	return next_ids[lane]++;
}

uint32_t registry_ids(unsigned int lane)
{
	return next_ids[lane];
}

void registry_ids_from(unsigned int lane, uint32_t id)
{
	next_ids[lane] = id;
}

void registry_lane_open(unsigned int lane)
{
	next_ids[lane] = 0;
	rule_clear(lane);
	cost_clear(lane);
	predicates_clear(lane);
	for (struct variant *variant = first; variant; variant = variant->next)
		variant->ids[lane] = EVENT_ID_NONE;
}

static uint32_t bucket_of(const char *name)
{
	return rule_hash(name) % BUCKETS;
}

static struct variant *find_variant(const char *name, const struct site *site)
{
	struct variant *variant = buckets[bucket_of(name)];
	unsigned int level = level_of_text(site->text);

	while (variant && (variant->kind != site->kind || strcmp(variant->name, name) ||
			   variant->level != level ||
			   memcmp(variant->types, site->types, sizeof variant->types) ||
			   strcmp(variant->fields, site->text + site->fields_at)))
		variant = variant->next_in_bucket;
	return variant;
}

struct variant *registry_next_named(const struct variant *variant, const char *name)
{
	struct variant *next = variant ? variant->next_in_bucket : buckets[bucket_of(name)];

	while (next && strcmp(next->name, name))
		next = next->next_in_bucket;
	return next;
}

const struct variant *registry_rival(const struct variant *variant)
{
	const struct variant *rival = NULL;

	while ((rival = registry_next_named(rival, variant->name))) {
		if (rival->kind == variant->kind && rival->site_count &&
		    memcmp(rival->types, variant->types, sizeof rival->types))
			return rival;
	}
	return NULL;
}

void registry_add(struct variant *variant)
{
	uint32_t bucket = bucket_of(variant->name);

	memset(variant->ids, 0xff, sizeof variant->ids); /* EVENT_ID_NONE */
	variant->next_in_bucket = buckets[bucket];
	buckets[bucket] = variant;
	/* whole before it is linked: a fork may find us here (registry_forked) */
	__atomic_store_n(last, variant, __ATOMIC_RELEASE);
	last = &variant->next;
}

static struct variant *make_variant(const char *name, const struct site *site)
{
	struct variant *variant = heap_alloc(sizeof *variant);

	if (!variant)
		return NULL;
	variant->name = heap_copy(name, site->name_bytes + 1u);
	variant->fields = heap_copy(site->text + site->fields_at,
				    site->text_bytes - site->fields_at);
	if (!variant->name || !variant->fields) {
		heap_free((void *)variant->name, site->name_bytes + 1u);
		heap_free((void *)variant->fields, site->text_bytes - site->fields_at);
		heap_free(variant, sizeof *variant);
		return NULL;
	}
	variant->kind = site->kind;
	variant->level = (uint8_t)level_of_text(site->text);
	memcpy(variant->types, site->types, sizeof variant->types);
	registry_add(variant);
	return variant;
}

/* Find or make the variants of a module's sites. */
static int name_sites(struct module *module)
{
	char name[RULE_BYTES_MAX];

	for (uint32_t i = 0; i < module->site_count; i++) {
		struct site *site = &module->sites[i];

		module_site_name(site, name);
		site->variant = find_variant(name, site);
		if (!site->variant)
			site->variant = make_variant(name, site);
		if (!site->variant)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Set the records' enter and agent_word, permanently, before any of their sites can be armed. Also
 * for the end of a scope: a hit reaches it through the scope's beginning, so it gets what it needs
 * here in any case.
 */
static int write_records(struct module *module, const struct text *text)
{
	size_t bytes = module->record_count * sizeof(struct wm_record);
	struct wm_record *records = heap_alloc(bytes);
	int error = records ? text_read(text, module->records, records, bytes) : -ENOMEM;

	for (uint32_t i = 0; !error && i < module->site_count; i++) {
		const struct site *site = &module->sites[i];
		struct wm_record
			*record = &records[(site->record - module->records) / sizeof *records];

		if (record->enter && record->enter != hit_entry(site->types) && !site->conflict)
			error = -EBUSY; /* a second copy of the agent has this module */
		record->enter = hit_entry(site->types);
		record->agent_word = (uintptr_t)(site->conflict ? &nothing : &site->variant->hit);
	}
	if (!error)
		error = text_write_data(text, module->records, records, bytes);
	heap_free(records, bytes);
	return error;
}

static void link_sites(struct module *module)
{
	/* backwards, so that a variant's list is in order of address */
	for (uint32_t i = module->site_count; i-- > 0;) {
		struct site *site = &module->sites[i];

		site->next = site->variant->sites;
		site->variant->sites = site;
		site->variant->site_count++;
	}
}

static void add_module(struct module *module, const struct text *text)
{
	int error = name_sites(module);

	if (!error && module->site_count)
		error = write_records(module, text);
	if (error)
		module->error = error;
	else
		link_sites(module);
	for (const struct registry_observer *o = observers; o; o = o->next)
		if (o->came)
			o->came(module);
	module->seen = 1;
	module->fresh = 1;
	module->came_ns = lock_now_ns();
	module->next = modules;
	modules = module;
}

/* Take the sites of a module that is gone out of a variant's list. */
static void leave_variant(struct variant *variant, const struct module *module)
{
	struct site **link = &variant->sites;

	if (variant->left == module)
		return; /* done already */
	variant->left = module;
	while (*link) {
		struct site *site = *link;

		if (site->module != module) {
			link = &site->next;
			continue;
		}
		variant->site_count--;
		variant->armed_count -= site->armed;
		restored_end(site);
		restored_changed();
		*link = site->next;
	}
}

/* Its memory is gone, or somebody else's: nothing there is touched. */
static void forget_module(struct module *module)
{
	for (const struct registry_observer *o = observers; o; o = o->next)
		o->gone(module);
	for (uint32_t i = 0; !module->error && i < module->site_count; i++)
		leave_variant(module->sites[i].variant, module);
	for (uint32_t i = 0; !module->error && i < module->site_count; i++)
		module->sites[i].variant->left = NULL;
	if (registry_listener)
		registry_listener->module(module, 1);
	module_free(module);
}

static struct module *find_module(const struct module_place *place)
{
	struct module *module = modules;

	while (module && (module->link != place->link || module->base != place->base ||
			  module->dynamic != place->dynamic))
		module = module->next;
	return module;
}

/*
 * Whether a module is still the one that was registered: one that was closed and opened again at
 * the same place between two looks has fresh records.
 */
int registry_is_current(const struct module *module, const struct text *text)
{
	const struct site *site = module->sites;
	struct wm_record record;
	uint8_t id[sizeof module->build_id];

	if (module->build_id_bytes &&
	    (text_read(text, module->build_id_at, id, module->build_id_bytes) ||
	     memcmp(id, module->build_id, module->build_id_bytes) != 0))
		return 0;
	if (!module->site_count || module->error)
		return 1;
	return !text_read(text, site->record, &record, sizeof record) && record.enter &&
	       record.agent_word == (uintptr_t)(site->conflict ? &nothing : &site->variant->hit);
}

static int look_at_module(const struct linkmap_module *found, void *data)
{
	const struct text *text = data;
	struct module *module = find_module(&found->place);
	char path[LINKMAP_PATH_MAX];
	int error;

	if (module && registry_is_current(module, text)) {
		module->seen = 1;
		return 0;
	}
	if (module)
		module->link = 0; /* found no more, so forgotten at the end of the walk */
	linkmap_path(text, found, path);
	error = module_read(text, &found->place, path, &module);
	if (error == -ENOMEM)
		return error;
	if (error) {
		/* not an ELF file where it says: keep the place, so as not to look again */
		module = heap_alloc(sizeof *module);
		if (!module)
			return -ENOMEM;
		module->link = found->place.link;
		module->base = found->place.base;
		module->dynamic = found->place.dynamic;
		module->path = heap_copy("", 1);
		module->path_bytes = module->path ? 1 : 0;
	}
	add_module(module, text);
	return 0;
}

int registry_scan(const struct text *text)
{
	struct module **link = &modules;
	int error;

	if (abandoned)
		return -EBUSY;
	for (struct module *module = modules; module; module = module->next)
		module->seen = 0;
	error = linkmap_walk(text, look_at_module, (void *)text);
	if (error)
		return error;
	while (*link) {
		struct module *module = *link;

		if (module->seen) {
			link = &module->next;
			continue;
		}
		*link = module->next;
		forget_module(module);
	}
	return 0;
}

int registry_is_frozen(const struct text *text)
{
	return linkmap_state(text) == RT_DELETE;
}

static uint32_t lanes_of(const struct plan *plan)
{
	uint32_t lanes = 0;

	for (unsigned int i = 0; i < plan->consumer_count; i++)
		lanes |= 1u << plan->consumers[i].lane;
	return lanes;
}

int registry_forked(int whole, uint32_t lanes)
{
	linkmap_forked();
	if (!whole)
		abandoned = 1;
	for (struct variant *variant = first; variant;
	     variant = __atomic_load_n(&variant->next, __ATOMIC_ACQUIRE)) {
		const struct plan *plan = variant->hit.plan;
		uint32_t kept = plan ? lanes_of(plan) & lanes : 0;

		if (abandoned) {
			if (!kept || plan->probe_count)
				__atomic_store_n(&variant->hit.plan, NULL, __ATOMIC_RELEASE);
			continue;
		}
		variant->lanes = variant->lanes_next = kept;
		if (plan && kept != lanes_of(plan) && planning_publish(variant))
			planning_drop(variant);
	}
	if (abandoned)
		return 0;
	registry_expect_stuck();
	for (unsigned int lane = 0; lane < SESSIONS_MAX; lane++) {
		rule_clear(lane);
		cost_clear(lane);
		/* a plan of the parent's session may be made again */
		if (!(lanes & 1u << lane))
			predicates_clear(lane);
	}
	return 1;
}
