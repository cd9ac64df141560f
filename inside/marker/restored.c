/* SPDX-License-Identifier: MIT */
#include "inside/marker/marker.h"

#include "abi/site.h"
#include "inside/patch/batch.h"
#include "inside/patch/compare.h"
#include "inside/runtime/lock.h"

#include <errno.h>

static struct compare_list armed;
static int is_stale, foreign_changed;
static uint64_t looked_ns; /* when the last look began */

void restored_changed(void)
{
	is_stale = 1;
}

int restored_any(void)
{
	return is_stale || armed.count;
}

static int collect(void)
{
	struct compare_item *item;

	armed.count = 0;
	for (const struct variant *v = registry_first(); v; v = v->next) {
		for (struct site *site = v->lanes ? v->sites : NULL; site; site = site->next) {
			if (!site->armed || site->portable)
				continue;
			if (compare_add(&armed, &item))
				return -ENOMEM; /* the others, until there is memory */
			item->owner = site;
			item->address = site->address;
			item->bytes = 1;
			item->expected[0] = SITE_ARMED;
		}
	}
	is_stale = 0;
	return 0;
}

static void report(const struct variant *variant, uint64_t end_ns)
{
	foreign_changed = 1;
	for (unsigned int lane = 0; registry_listener && lane < SESSIONS_MAX; lane++) {
		if (variant->lanes & 1u << lane && variant->ids[lane] != EVENT_ID_NONE)
			registry_listener->held(lane, variant->ids[lane], variant->held_ns, end_ns);
	}
}

/* The marker is reported as held while any of its sites is. */
static void hold(struct site *site)
{
	if (site->is_foreign)
		return;
	site->is_foreign = 1;
	if (site->variant->foreign_sites++)
		return;
	if (looked_ns > site->variant->held_ns)
		site->variant->held_ns = looked_ns;
	report(site->variant, 0);
}

static void release(struct site *site)
{
	site->is_foreign = 0;
	if (!--site->variant->foreign_sites)
		report(site->variant, lock_now_ns());
}

void restored_end(struct site *site)
{
	if (site->is_foreign)
		release(site);
}

static void arm_again(const struct text *text, struct site *site)
{
	struct batch_site one = {
		.address = site->address,
		.displacement = site->displacement,
		.prot = site->prot,
		.owner = site,
	};

	if (!batch_commit(text, &one, 1, 1) && !one.error)
		release(site);
}

static void judge(void *owner, const uint8_t *found, int is_same, void *text)
{
	struct site *site = owner;

	if (is_same && site->is_foreign) /* somebody put our byte back */
		release(site);
	if (is_same || !found) /* its module goes */
		return;
	hold(site);
	if (found[0] == SITE_DORMANT)
		arm_again(text, site);
}

void restored_look(const struct text *text)
{
	if (is_stale)
		collect();
	if (armed.count) {
		uint64_t begin_ns = lock_now_ns();

		compare_run(text, &armed, judge, (void *)text);
		looked_ns = begin_ns;
	}
	if (foreign_changed && registry_listener)
		registry_listener->flush();
	foreign_changed = 0;
}
