/* SPDX-License-Identifier: MIT */
#include "inside/store/pool.h"

/*
 * Where the search for a free chunk begins: at the front as soon as something was given back, so
 * that the few chunks that were used already serve again and again. They are in memory, in both
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

static int32_t take_whole(struct store *store)
{
	uint32_t start = first_look(store);

	for (uint32_t i = 0; i < store->chunk_count; i++) {
		uint32_t chunk = (start + i) % store->chunk_count;
		uint32_t none = 0;

		if (__atomic_load_n(&store->chunks[chunk], __ATOMIC_RELAXED) != 0)
			continue;
		/* 0 -> WHOLE; acquire pairs with the release by which we or the drain free it */
		if (__atomic_compare_exchange_n(&store->chunks[chunk], &none, CHUNK_WHOLE, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
			__atomic_store_n(&store->hand, chunk + 1, __ATOMIC_RELAXED);
			return (int32_t)(chunk * CHUNK_UNITS);
		}
	}
	return -1;
}

/* A free unit of this chunk, or -1. */
static int32_t take_unit_of(struct store *store, uint32_t chunk)
{
	uint32_t word = __atomic_load_n(&store->chunks[chunk], __ATOMIC_RELAXED);

	while (!(word & CHUNK_WHOLE) && (word & CHUNK_ALL_SMALL) != CHUNK_ALL_SMALL) {
		uint32_t unit = (uint32_t)__builtin_ctz(~word);

		if (__atomic_compare_exchange_n(&store->chunks[chunk], &word, word | 1u << unit, 0,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return (int32_t)(chunk * CHUNK_UNITS + unit);
	}
	return -1;
}

/*
 * Small pages fill the chunks from the far end, and those that are split already first, so that
 * quiet threads leave whole chunks to the busy ones.
 */
static int32_t take_small(struct store *store)
{
	for (int split = 1; split >= 0; split--) {
		for (uint32_t i = store->chunk_count; i-- > 0;) {
			uint32_t word = __atomic_load_n(&store->chunks[i], __ATOMIC_RELAXED);
			int32_t unit;

			if (split ? word == 0 || word == CHUNK_ALL_SMALL : word != 0)
				continue;
			unit = take_unit_of(store, i);
			if (unit >= 0)
				return unit;
		}
	}
	return -1;
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

/* Give back units of a chunk that were stolen one by one. */
static void restore(struct store *store, uint32_t chunk, uint32_t bits)
{
	for (uint32_t unit = 0; unit < CHUNK_UNITS; unit++) {
		if (bits >> unit & 1)
			__atomic_store_n(&store->pages[chunk * CHUNK_UNITS + unit].state, PAGE_FREE,
					 __ATOMIC_RELEASE);
	}
	__atomic_fetch_and(&store->chunks[chunk], ~bits, __ATOMIC_RELEASE);
}

/* Make one large page of a chunk of small ones that are all full. */
static int steal_split(struct store *store, uint32_t chunk)
{
	uint32_t word = __atomic_load_n(&store->chunks[chunk], __ATOMIC_RELAXED);
	struct wm_page *pages = &store->pages[chunk * CHUNK_UNITS];
	uint32_t stolen = 0;

	for (uint32_t unit = 0; unit < CHUNK_UNITS; unit++) {
		if ((word >> unit & 1) &&
		    __atomic_load_n(&pages[unit].state, __ATOMIC_RELAXED) != PAGE_FULL)
			return 0;
	}
	for (uint32_t unit = 0; unit < CHUNK_UNITS; unit++) {
		if ((word >> unit & 1) && steal_page(store, &pages[unit]))
			stolen |= 1u << unit;
	}
	/* small units -> WHOLE, unless somebody took or kept one meanwhile */
	if (stolen && stolen == word &&
	    __atomic_compare_exchange_n(&store->chunks[chunk], &word, CHUNK_WHOLE, 0,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		for (uint32_t unit = 1; unit < CHUNK_UNITS; unit++)
			__atomic_store_n(&pages[unit].state, PAGE_FREE, __ATOMIC_RELAXED);
		return 1;
	}
	restore(store, chunk, stolen);
	return 0;
}

/*
 * Chunks are taken in their order, so the first full one after the hand is the oldest, or nearly.
 * One small page out of a chunk whose others are still being written: only when there is no more,
 * and only for who can use it. *bytes gets what was taken.
 */
static int32_t steal(struct store *store, int exact, uint32_t *bytes)
{
	uint32_t start = __atomic_load_n(&store->hand, __ATOMIC_RELAXED);

	*bytes = CHUNK_BYTES;
	for (uint32_t i = 0; i < store->chunk_count; i++) {
		uint32_t chunk = (start + i) % store->chunk_count;
		uint32_t word = __atomic_load_n(&store->chunks[chunk], __ATOMIC_RELAXED);

		if (word == CHUNK_WHOLE ? !steal_page(store, &store->pages[chunk * CHUNK_UNITS])
					: !word || !steal_split(store, chunk))
			continue;
		__atomic_store_n(&store->hand, chunk + 1, __ATOMIC_RELAXED);
		return (int32_t)(chunk * CHUNK_UNITS);
	}
	*bytes = UNIT_BYTES;
	start = __atomic_load_n(&store->unit_hand, __ATOMIC_RELAXED);
	for (uint32_t i = 0; !exact && i < store->chunk_count * CHUNK_UNITS; i++) {
		uint32_t unit = (start + i) % (store->chunk_count * CHUNK_UNITS);
		uint32_t word = __atomic_load_n(&store->chunks[unit / CHUNK_UNITS],
						__ATOMIC_RELAXED);

		if (!(word & CHUNK_WHOLE) && (word >> unit % CHUNK_UNITS & 1) &&
		    steal_page(store, &store->pages[unit])) {
			__atomic_store_n(&store->unit_hand, unit + 1, __ATOMIC_RELAXED);
			return (int32_t)unit;
		}
	}
	return -1;
}

int pool_may_have(const struct store *store)
{
	return store->policy == STORE_CYCLIC || !store->full_mark ||
	       __atomic_load_n(&store->full_mark, __ATOMIC_RELAXED) !=
		       __atomic_load_n(&store->head->freed, __ATOMIC_ACQUIRE) + 1;
}

int32_t pool_take(struct store *store, int exact, uint32_t *bytes)
{
	/*
	 * read before the search: a page given back during it makes the mark stale, so none is
	 * missed
	 */
	uint32_t freed = __atomic_load_n(&store->head->freed, __ATOMIC_ACQUIRE);
	uint32_t taken = *bytes;
	int32_t unit = taken == CHUNK_BYTES ? take_whole(store) : take_small(store);
	struct wm_page *page;

	if (unit < 0 && !exact) {
		taken = taken == CHUNK_BYTES ? UNIT_BYTES : CHUNK_BYTES;
		unit = taken == CHUNK_BYTES ? take_whole(store) : take_small(store);
	}
	if (unit < 0 && store->policy == STORE_CYCLIC)
		unit = steal(store, exact, &taken);
	if (unit < 0) {
		if (!exact)
			__atomic_store_n(&store->full_mark, freed + 1, __ATOMIC_RELAXED);
		return -1;
	}
	*bytes = taken;
	page = &store->pages[unit];
	page->bytes = taken;
	__atomic_store_n(&page->word, PAGE_WORD(PAGE_HEAD_BYTES, 0), __ATOMIC_RELAXED);
	return unit;
}
