/* SPDX-License-Identifier: MIT */
/* Find the pages of a store that may be taken. */
#include "record/drain/drain_state.h"

#include <limits.h>
#include <stdlib.h>

#define PART_TRIES 8

/*
 * Note the present content of an open page: its ids must be known before it is taken. The time must
 * be that of the last event, or of the one being written, since the next part begins with it.
 * Returns 0 if the writer is too fast; then it fills the page soon.
 */
static int part_find(const struct wm_page *page, struct found *found)
{
	uint64_t word = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&page->state, __ATOMIC_RELAXED) != PAGE_OPEN)
		return 1;
	for (unsigned int i = 0; i < PART_TRIES; i++) {
		uint64_t again;

		found->end_ticks = __atomic_load_n(&page->end_ticks, __ATOMIC_ACQUIRE);
		again = __atomic_load_n(&page->word, __ATOMIC_ACQUIRE);
		if (again == word) {
			found->word = word;
			return 1;
		}
		word = again;
	}
	return 0;
}

/* Whether to take only a part of an open page, because a thread still writes to it. */
static int is_in_parts(const struct drain *drain, uint32_t slot)
{
	return !drain_is_left(drain, slot) &&
	       (drain->reach == DRAIN_PARTS ||
		(drain->reach == DRAIN_ALL && drain_is_childs(drain, slot)));
}

static void found_add(struct drain *drain, uint32_t number)
{
	struct wm_page *page = &drain->map.pages[number];
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);

	struct found found = { .page = number };

	/* a page of an unknown slot is invalid; it sorts last and is dropped */
	if (slot >= drain->map.slot_count)
		slot = UINT32_MAX;
	found.tid = slot == UINT32_MAX ? UINT32_MAX : drain->map.slots[slot].tid;
	found.slot = slot;
	found.seq = __atomic_load_n(&page->seq, __ATOMIC_RELAXED);
	if (is_in_parts(drain, slot) && !part_find(page, &found))
		return;
	drain->found[drain->found_count++] = found;
}

static int page_wanted(const struct drain *drain, uint32_t number)
{
	/* pairs with the writer's release stores of FULL and of OPEN */
	uint32_t state = __atomic_load_n(&drain->map.pages[number].state, __ATOMIC_ACQUIRE);

	return state == PAGE_FULL ||
	       (state == PAGE_OPEN &&
		(drain->reach != DRAIN_READY ||
		 drain_is_left(drain,
			       __atomic_load_n(&drain->map.pages[number].slot, __ATOMIC_RELAXED))));
}

/* Order by thread, then by stream, then by sequence number. */
static int found_order(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return x->page < y->page ? -1 : x->page > y->page;
}

static uint64_t page_held(const struct drain *drain, const struct wm_page *page)
{
	uint32_t state = __atomic_load_n(&page->state, __ATOMIC_ACQUIRE);
	uint32_t slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED);
	uint64_t events = __atomic_load_n(&page->word, __ATOMIC_RELAXED) >> 32, part = 0;

	if ((state != PAGE_OPEN && state != PAGE_FULL) || slot >= drain->map.slot_count)
		return 0;
	if (drain->streams[slot].part_seq == __atomic_load_n(&page->seq, __ATOMIC_RELAXED))
		part = drain->streams[slot].part_events;
	return events > part ? events - part : 0;
}

uint64_t drain_held(const struct drain *drain)
{
	const struct mapping *map = &drain->map;
	uint64_t overwritten = __atomic_load_n(&map->store->overwritten, __ATOMIC_RELAXED);
	uint64_t held = 0;

	for (uint32_t i = 0; i < map->page_count; i++) {
		if (__atomic_load_n(&map->taken[i], __ATOMIC_ACQUIRE))
			held += page_held(drain, &map->pages[i]);
	}
	if (is_cyclic(drain) && overwritten > drain->overwritten_counted)
		held += overwritten - drain->overwritten_counted;
	return held;
}

int drain_scan(struct drain *drain, enum drain_reach reach)
{
	const struct mapping *map = &drain->map;

	drain->reach = reach;
	drain->found_count = 0;
	drain_look_at_children(drain, reach == DRAIN_ALL);
	if (is_cyclic(drain) && reach != DRAIN_ALL)
		return 0;
	for (uint32_t i = 0; i < map->page_count; i++) {
		if (__atomic_load_n(&map->taken[i], __ATOMIC_ACQUIRE) && page_wanted(drain, i))
			found_add(drain, i);
	}
	qsort(drain->found, drain->found_count, sizeof(*drain->found), found_order);
	return drain->found_count > INT_MAX ? INT_MAX : (int)drain->found_count;
}
