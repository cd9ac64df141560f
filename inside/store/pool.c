/* SPDX-License-Identifier: MIT */
#include "inside/store/pool.h"

/*
 * Where the search for a free page begins: at the front as soon as something was given back, so
 * that the few pages that were used already serve again and again. They are in memory, in both
 * sides' page tables and in the caches; going round, each would be touched for the first time until
 * all were. The cyclic policy gets nothing back, and needs the order.
 */
static uint32_t first_look(struct store *store)
{
	uint32_t freed = __atomic_load_n(&store->head->freed, __ATOMIC_RELAXED);

	if (store->policy == STORE_CYCLIC ||
	    __atomic_exchange_n(&store->freed_seen, freed, __ATOMIC_RELAXED) == freed)
		return __atomic_load_n(&store->hand, __ATOMIC_RELAXED);
	return 0;
}

/*
 * FULL -> OPEN, the cyclic policy's step: what the page held is lost. Whoever is killed between two
 * of these lines leaves a page that says what it said, or nothing; never a slot with pages too few,
 * which would be given to another thread.
 */
static int steal_page(struct store *store, struct wm_page *page)
{
	uint32_t full = PAGE_FULL;
	uint32_t slot, events;

	if (!__atomic_compare_exchange_n(&page->state, &full, PAGE_OPEN, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return 0;
	slot = __atomic_load_n(&page->slot, __ATOMIC_RELAXED); /* once: the outside may write it */
	events = __atomic_load_n(&page->events, __ATOMIC_RELAXED);
	/* releases, so that they are seen in this order */
	__atomic_store_n(&page->word, PAGE_WORD(PAGE_HEAD_BYTES, 0), __ATOMIC_RELEASE);
	__atomic_store_n(&page->slot, PAGE_NO_SLOT, __ATOMIC_RELEASE);
	if (slot < store->slot_count)
		__atomic_fetch_sub(&store->slots[slot].pages, 1, __ATOMIC_RELEASE);
	__atomic_fetch_add(&store->head->overwritten, events, __ATOMIC_RELAXED);
	return 1;
}

/* 0 -> 1; acquire pairs with the release by which the drain gives it back. */
static int take_free(struct store *store, uint32_t number)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&store->taken[number], &none, 1, 0, __ATOMIC_ACQUIRE,
					   __ATOMIC_RELAXED);
}

int pool_may_have(const struct store *store)
{
	return store->policy == STORE_CYCLIC || !store->full_mark ||
	       __atomic_load_n(&store->full_mark, __ATOMIC_RELAXED) !=
		       __atomic_load_n(&store->head->freed, __ATOMIC_ACQUIRE) + 1;
}

/*
 * The cyclic policy takes pages in their order, so the first full one after the hand is the oldest,
 * or nearly, and a free one further on has its turn later.
 */
int32_t pool_take(struct store *store)
{
	/*
	 * read before the search: a page given back during it makes the mark stale, so none is
	 * missed
	 */
	uint32_t freed = __atomic_load_n(&store->head->freed, __ATOMIC_ACQUIRE);
	uint32_t start = first_look(store);

	for (uint32_t i = 0; i < store->page_count; i++) {
		uint32_t number = (start + i) % store->page_count;
		struct wm_page *page = &store->pages[number];

		if (__atomic_load_n(&store->taken[number], __ATOMIC_RELAXED)
			    ? store->policy != STORE_CYCLIC || !steal_page(store, page)
			    : !take_free(store, number))
			continue;
		__atomic_store_n(&store->hand, number + 1, __ATOMIC_RELAXED);
		__atomic_store_n(&page->word, PAGE_WORD(PAGE_HEAD_BYTES, 0), __ATOMIC_RELAXED);
		return (int32_t)number;
	}
	__atomic_store_n(&store->full_mark, freed + 1, __ATOMIC_RELAXED);
	return -1;
}
