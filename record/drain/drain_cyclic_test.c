/* SPDX-License-Identifier: MIT */
/* The flight recorder: overwritten pages, and how they are counted. */
#include "record/drain/testing/filled.h"

Test(drain_cyclic, cyclic_store_is_taken_only_at_the_end)
{
	struct drain_counts counts;

	make(4, 64, STORE_CYCLIC);
	sample_store_slot(&store, 0, 100, 0);
	store.slots[0].next_seq = 6;
	store.slots[0].written = 60;
	fill(sample_store_page(&store, 0, 0), 4);
	fill(sample_store_page(&store, 1, 0), 4);
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_assert_eq(store.pages[0].state, PAGE_FULL);
	cr_assert_eq(pass(DRAIN_ALL), 2);
	cr_assert_eq(drain_finish(drain, &sink), 0);
	cr_assert_eq(seen.count, 3);
	cr_assert_eq(seen.heads[0].discarded, 0, "an empty packet goes before the losses");
	cr_assert_eq(seen.bytes[0], 0);
	cr_assert_eq(seen.heads[1].seq, 7, "six pages are missing");
	cr_assert_eq(seen.heads[1].discarded, 60,
		     "overwritten events are before the remaining ones");
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded + counts.discarded, 68);
	release();
}

Test(drain_cyclic, overwritten_pages_are_losses_before_next_page)
{
	make(4, 64, STORE_CYCLIC);
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 0, 0), 4);
	store.slots[0].next_seq = 9;
	store.slots[0].written += 60;
	fill(sample_store_page(&store, 1, 0), 4);
	store.slots[0].discarded = 30;
	cr_assert_eq(pass(DRAIN_ALL), 2);
	cr_assert_eq(seen.heads[0].discarded, 0);
	cr_assert_eq(seen.heads[1].discarded, 60);
	cr_assert_eq(seen.heads[1].seq, 9);
	cr_assert_eq(drain_finish(drain, &sink), 0);
	cr_assert_eq(seen.heads[2].discarded, 90, "events without a page came later");
	release();
}

Test(drain_cyclic, held_counts_stored_and_overwritten_events)
{
	struct wm_page *page;

	make(4, 64, STORE_CYCLIC);
	cr_assert_eq(drain_held(drain), 0);
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 0, 0), 4);
	page = sample_store_page(&store, 1, 0);
	sample_store_event(&store, page, 1, 2000);
	cr_assert_eq(drain_held(drain), 5);
	store.head->overwritten = 7;
	cr_assert_eq(drain_held(drain), 12);
	sample_store_close(&store, page);
	cr_assert_eq(pass(DRAIN_ALL), 2);
	cr_assert_eq(drain_held(drain), 0, "drain_count() counts all");
	release();
}

#define STEAL_STEPS 9

/*
 * A thread takes slot 0's page of 5 events for slot 1, in the steps of inside/store/lane.c, and
 * is stopped after `steps` of them. Returns how many events it wrote.
 */
static unsigned int steal(struct wm_page *page, int steps)
{
	if (steps-- > 0)
		page->state = PAGE_OPEN;
	if (steps-- > 0)
		page->word = PAGE_WORD(PAGE_HEAD_BYTES, 0);
	if (steps-- > 0)
		page->slot = PAGE_NO_SLOT;
	if (steps-- > 0)
		store.slots[0].pages--;
	if (steps-- > 0)
		store.head->overwritten += 5;
	if (steps-- > 0)
		page->before = store.slots[1].written;
	if (steps-- > 0)
		store.slots[1].pages++;
	if (steps-- > 0)
		page->slot = 1;
	if (steps-- > 0) {
		sample_store_event(&store, page, 1, 5000);
		return 1;
	}
	return 0;
}

Test(drain_cyclic, page_of_killed_thief_counts_once)
{
	for (int steps = 0; steps <= STEAL_STEPS; steps++) {
		struct drain_counts counts;
		struct wm_page *oldest;
		unsigned int more;

		make(4, 64, STORE_CYCLIC);
		sample_store_slot(&store, 0, 100, 0);
		sample_store_slot(&store, 1, 101, 0);
		store.slots[1].written = 60; /* these were overwritten */
		oldest = sample_store_page(&store, 0, 0);
		fill(oldest, 5);
		fill(sample_store_page(&store, 1, 0), 7);
		sample_store_event(&store, sample_store_page(&store, 2, 0), 1, 9000);
		more = steal(oldest, steps);
		cr_assert_geq(pass(DRAIN_ALL), 0);
		cr_assert_eq(drain_finish(drain, &sink), 0);
		drain_count(drain, &counts);
		cr_assert_eq(counts.recorded + counts.discarded, 73 + more,
			     "after step %d: recorded %zu, discarded %zu", steps,
			     (size_t)counts.recorded, (size_t)counts.discarded);
		cr_assert_eq(counts.recorded, (steps < 2 ? 13 : 8) + more);
		cr_assert_eq(seen.all_events, counts.recorded);
		cr_assert_eq(counts.damaged, 0);
		cr_assert_leq(store.slots[0].pages, 1);
		release();
	}
}

/* A reader peeks while pages are overwritten and threads end. It reads only when all are quiet. */
Test(drain_cyclic, peek_at_cyclic_store_changes_no_count)
{
	struct drain_counts counts;
	struct wm_page *page;

	make(4, 64, STORE_CYCLIC);
	sample_store_slot(&store, 0, 100, 0);
	sample_store_slot(&store, 1, 101, 0);
	page = sample_store_page(&store, 0, 1);
	fill(page, 5);
	cr_assert_eq(pass(DRAIN_PEEK), 0);
	store.slots[1].state = SLOT_ENDED;
	for (unsigned int i = 0; i < 5; i++) {
		page->state = PAGE_OPEN;
		page->word = PAGE_WORD(PAGE_HEAD_BYTES, 0);
		cr_assert_eq(pass(DRAIN_PEEK), 0);
		store.slots[page->slot].pages--;
		page->slot = PAGE_NO_SLOT;
		cr_assert_eq(pass(DRAIN_PEEK), 0);
		store.head->overwritten += 5;
		fill(sample_store_page(&store, 0, 0), 5);
		cr_assert_eq(pass(DRAIN_PEEK), 0);
		drain_count(drain, &counts);
		cr_assert_eq(counts.recorded, 0);
		cr_assert_eq(counts.discarded, 5 * (i + 1));
	}
	cr_assert_eq(store.slots[1].state, SLOT_FREE, "its pages are gone");
	cr_assert_eq(pass(DRAIN_ALL), 1);
	cr_assert_eq(drain_finish(drain, &sink), 0);
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded, 5);
	cr_assert_eq(counts.discarded, 25);
	release();
}
