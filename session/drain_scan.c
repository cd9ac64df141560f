/* SPDX-License-Identifier: MIT */
/* Finding a store's pages that may be taken. */
#include "session/drain_state.h"

#include <limits.h>
#include <stdlib.h>

static void found_add(struct drain *drain, uint32_t unit)
{
	struct wm_page *page = &drain->map.pages[unit];
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);

	/* a page of no known slot is rubbish; it goes to the end of the list and is dropped */
	if (slot >= drain->map.slot_count)
		slot = UINT32_MAX;
	drain->found[drain->found_count++] = (struct found){
		.tid = slot == UINT32_MAX ? UINT32_MAX : drain->map.slots[slot].tid,
		.unit = unit,
		.slot = slot,
		.seq = __atomic_load_n(&page->seq, __ATOMIC_RELAXED),
	};
}

static int page_wanted(const struct drain *drain, uint32_t unit)
{
	/* pairs with the writer's release store of FULL, and of OPEN */
	uint32_t state = __atomic_load_n(&drain->map.pages[unit].state, __ATOMIC_ACQUIRE);

	return state == PAGE_FULL || (state == PAGE_OPEN && drain->reach != DRAIN_READY);
}

/* The streams of a thread side by side, the pages of a stream in their order. */
static int found_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->unit < y->unit ? -1 : x->unit > y->unit;
}

int drain_scan(struct drain *drain, enum drain_reach reach)
{
	const struct mapping *map = &drain->map;

	drain->reach = reach;
	drain->found_count = 0;
	if (is_cyclic(drain) && reach != DRAIN_ALL)
		return 0;
	for (uint32_t chunk = 0; chunk < map->chunk_count; chunk++) {
		uint32_t word = __atomic_load_n(&map->chunks[chunk], __ATOMIC_ACQUIRE);
		uint32_t units = word & CHUNK_WHOLE ? 1 : word & CHUNK_ALL_SMALL;

		for (; units; units &= units - 1) {
			uint32_t unit = chunk * CHUNK_UNITS + (uint32_t)__builtin_ctz(units);

			if (page_wanted(drain, unit))
				found_add(drain, unit);
		}
	}
	qsort(drain->found, drain->found_count, sizeof(*drain->found), found_order);
	return drain->found_count > INT_MAX ? INT_MAX : (int)drain->found_count;
}
