/* SPDX-License-Identifier: MIT */
#include "record/drain/testing/filled.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <waymark/error.h>

/* A live reader that only counts: each event is a header of four bytes. */
static int see_live(struct drain_packet *packet, void *data)
{
	uint64_t events = packet->bytes / EVENT_COMPACT_BYTES;
	struct seen *to = data;

	check_bounds(packet);
	to->all_events += events - *packet->delivered;
	*packet->delivered = events;
	packet->events = events;
	to->count++;
	return 0;
}

static const struct drain_sink live_sink = { see_live, &seen };

Test(drain, full_pages_are_ordered_by_stream)
{
	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	sample_store_slot(&store, 1, 101, 1);
	/* later pages are before earlier ones in memory */
	fill(sample_store_page(&store, 40, 0), 3);
	fill(sample_store_page(&store, 16, 1), 7);
	fill(sample_store_page(&store, 3, 0), 5);
	cr_assert_eq(pass(DRAIN_READY), 3);
	cr_assert_eq(seen.heads[0].tid, 100);
	cr_assert_eq(seen.heads[0].seq, 0);
	cr_assert_eq(seen.heads[1].seq, 1);
	cr_assert_eq(seen.events[1], 5);
	cr_assert_eq(seen.heads[2].tid, 101);
	cr_assert_eq(seen.heads[2].depth, 1);
	cr_assert_eq(seen.heads[2].pid, 4242);
	cr_assert_eq(seen.bytes[2], 7 * EVENT_COMPACT_BYTES);
	cr_assert_str_eq(seen.heads[2].comm, "sample");
	cr_assert_neq(seen.heads[0].instance, seen.heads[2].instance);
	release();
}

Test(drain, taken_pages_are_freed_and_counted)
{
	uint32_t freed;

	make(4, 64, STORE_BLOCK);
	freed = store.head->freed;
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 5, 0), 1);
	sample_store_page(&store, 6, 0);
	fill(sample_store_page(&store, 16, 0), 1);
	store.head->drained_ns = 0;
	cr_assert_eq(pass(DRAIN_READY), 1, "the page behind the open one waits");
	cr_assert_eq(store.taken[5], 0);
	cr_assert_eq(store.taken[6], 1);
	cr_assert_eq(store.pages[5].state, PAGE_FREE);
	cr_assert_eq(store.slots[0].pages, 2);
	cr_assert_eq(store.head->freed, freed + 1);
	cr_assert_neq(store.head->drained_ns, 0);
	cr_assert_eq(drain_used_bytes(drain), 2 * STORE_PAGE_BYTES);
	release();
}

Test(drain, page_waits_for_its_predecessor)
{
	struct wm_page *first;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	first = sample_store_page(&store, 0, 0);
	fill(sample_store_page(&store, 1, 0), 1);
	cr_assert_eq(pass(DRAIN_READY), 0);
	fill(first, 1);
	cr_assert_eq(pass(DRAIN_READY), 2);
	cr_assert_eq(seen.heads[0].seq, 0);
	cr_assert_eq(seen.heads[1].seq, 1);
	release();
}

Test(drain, missing_page_delays_stream_only_some_passes)
{
	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	store.slots[0].next_seq = 9;
	fill(sample_store_page(&store, 1, 0), 1);
	for (int i = 0; i < 10 && !seen.count; i++)
		pass(DRAIN_READY);
	cr_assert_eq(seen.count, 1);
	release();
}

Test(drain, open_page_is_taken_only_when_quiet)
{
	struct wm_page *page;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 2000);
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_assert_eq(page->state, PAGE_OPEN);
	cr_assert_eq(pass(DRAIN_ALL), 1);
	cr_assert_eq(seen.bytes[0], EVENT_COMPACT_BYTES);
	cr_assert_eq(page->state, PAGE_FREE);
	release();
}

Test(drain, open_page_is_written_in_parts)
{
	struct drain_counts counts;
	struct wm_page *page;

	make(4, 64, STORE_DISCARD);
	seen.checks_times = 1;
	sample_store_slot(&store, 0, 100, 0);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 1500);
	cr_assert_eq(drain_held(drain), 1);
	cr_assert_eq(pass(DRAIN_PARTS), 1);
	cr_assert_eq(drain_held(drain), 0);
	cr_assert_eq(pass(DRAIN_PARTS), 0, "nothing is new");
	sample_store_event(&store, page, 1, 1501);
	sample_store_event(&store, page, 1, 1502);
	cr_assert_eq(drain_held(drain), 2);
	cr_assert_eq(pass(DRAIN_PARTS), 1);
	sample_store_event(&store, page, 1, 1503);
	sample_store_close(&store, page);
	cr_assert_eq(pass(DRAIN_PARTS), 1);
	cr_assert_eq(page->state, PAGE_FREE);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 3000);
	cr_assert_eq(pass(DRAIN_PARTS), 1);
	sample_store_close(&store, page);
	cr_assert_eq(pass(DRAIN_READY), 0, "all of it was written");
	cr_assert_eq(page->state, PAGE_FREE);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 3500);
	cr_assert_eq(pass(DRAIN_ALL), 1);
	cr_assert_eq(seen.count, 5);
	for (size_t i = 0; i < 5; i++)
		cr_expect_eq(seen.heads[i].seq, i);
	cr_expect_eq(seen.events[1], 2);
	cr_expect_eq(seen.bytes[1], 2 * EVENT_COMPACT_BYTES);
	cr_expect_eq(seen.heads[1].begin_ticks, 1500);
	cr_expect_eq(seen.heads[2].begin_ticks, 1502);
	drain_count(drain, &counts);
	cr_expect_eq(counts.recorded, 6);
	cr_expect_eq(counts.discarded, 0);
	release();
}

Test(drain, rejected_hits_are_counted_of_threads_that_end_too)
{
	struct drain_counts counts;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	sample_store_slot(&store, 1, 101, 0);
	store.slots[0].rejected = 5;
	store.slots[1].rejected = 7;
	store.head->rejected = 1;
	drain_count(drain, &counts);
	cr_expect_eq(counts.rejected, 13);
	store.slots[0].state = SLOT_ENDED;
	cr_assert_eq(pass(DRAIN_READY), 0);
	cr_expect_eq(store.slots[0].state, SLOT_FREE);
	store.slots[0].rejected = 0; /* as its next thread has it */
	drain_count(drain, &counts);
	cr_expect_eq(counts.rejected, 13);
	cr_expect_eq(seen.count, 0, "no packet for a stream without events");
	release();
}

Test(drain, refused_part_is_retried)
{
	struct drain_counts counts;
	struct wm_page *page;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 2000);
	cr_assert_eq(pass(DRAIN_PARTS), 1);
	sample_store_event(&store, page, 1, 2001);
	seen.fail = -ENOSPC;
	cr_assert_eq(pass(DRAIN_PARTS), -ENOSPC);
	drain_count(drain, &counts);
	cr_expect_eq(counts.discarded, 0);
	sample_store_close(&store, page);
	cr_assert_eq(pass(DRAIN_PARTS), -ENOSPC);
	drain_count(drain, &counts);
	cr_expect_eq(counts.recorded, 1);
	cr_expect_eq(counts.discarded, 1, "the part before it was written");
	release();
}

Test(drain, parts_are_limited_in_each_pass)
{
	make(2048, 2048, STORE_DISCARD);
	for (uint32_t i = 0; i < 1500; i++) {
		sample_store_slot(&store, i, 100 + i, 0);
		sample_store_event(&store, sample_store_page(&store, i, i), 1, 2000);
	}
	cr_assert_eq(pass(DRAIN_PARTS), 1000);
	cr_assert_eq(pass(DRAIN_PARTS), 500);
	cr_assert_eq(pass(DRAIN_PARTS), 0);
	release();
}

Test(drain, peek_hands_out_each_event_once)
{
	struct wm_page *page;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 2000);
	drain_scan(drain, DRAIN_PEEK);
	cr_assert_geq(drain_take(drain, &live_sink), 0);
	cr_assert_eq(seen.all_events, 1);
	sample_store_event(&store, page, 1, 2001);
	sample_store_event(&store, page, 1, 2002);
	drain_scan(drain, DRAIN_PEEK);
	drain_take(drain, &live_sink);
	cr_assert_eq(seen.all_events, 3);
	cr_assert_eq(page->state, PAGE_OPEN);
	page->state = PAGE_FULL;
	drain_scan(drain, DRAIN_PEEK);
	drain_take(drain, &live_sink);
	cr_assert_eq(seen.all_events, 3);
	cr_assert_eq(page->state, PAGE_FREE);
	page = sample_store_page(&store, 0, 0);
	sample_store_event(&store, page, 1, 3000);
	drain_scan(drain, DRAIN_PEEK);
	drain_take(drain, &live_sink);
	cr_assert_eq(seen.all_events, 4, "the next page begins at its first event");
	release();
}

Test(drain, losses_are_in_next_page_or_empty_packet)
{
	struct drain_counts counts;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 0, 0), 2);
	store.slots[0].discarded = 5;
	fill(sample_store_page(&store, 1, 0), 2);
	store.slots[0].discarded = 8;
	store.slots[0].state = SLOT_ENDED;
	pass(DRAIN_READY);
	cr_assert_eq(seen.count, 3);
	cr_assert_eq(seen.heads[0].discarded, 0);
	cr_assert_eq(seen.heads[1].discarded, 5);
	cr_assert_eq(seen.heads[2].discarded, 8);
	cr_assert_eq(seen.bytes[2], 0);
	cr_assert_eq(seen.heads[2].seq, 2);
	cr_assert_geq(seen.heads[2].begin_ticks, seen.heads[1].end_ticks);
	cr_assert_eq(store.slots[0].state, SLOT_FREE);
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded, 4);
	cr_assert_eq(counts.discarded, 8);
	release();
}

Test(drain, losses_are_counted_between_passes)
{
	struct drain_counts counts;

	make(4, 64, STORE_BLOCK);
	sample_store_slot(&store, 0, 100, 0);
	store.slots[0].discarded = 5;
	store.head->discarded = 1;
	drain_count(drain, &counts);
	cr_assert_eq(counts.discarded, 6);
	pass(DRAIN_READY);
	drain_count(drain, &counts);
	cr_assert_eq(counts.discarded, 6, "each once");
	store.slots[0].discarded = 8;
	drain_count(drain, &counts);
	cr_assert_eq(counts.discarded, 9);
	release();
}

Test(drain, reused_slot_is_another_stream)
{
	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 0, 0), 1);
	store.slots[0].state = SLOT_ENDED;
	pass(DRAIN_READY);
	sample_store_slot(&store, 0, 200, 0);
	fill(sample_store_page(&store, 0, 0), 1);
	pass(DRAIN_READY);
	cr_assert_eq(seen.count, 2);
	cr_assert_eq(seen.heads[1].tid, 200);
	cr_assert_neq(seen.heads[0].instance, seen.heads[1].instance);
	release();
}

Test(drain, ended_slot_with_pages_is_kept)
{
	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	sample_store_page(&store, 0, 0);
	store.slots[0].state = SLOT_ENDED;
	pass(DRAIN_READY);
	cr_assert_eq(store.slots[0].state, SLOT_ENDED);
	release();
}

Test(drain, losses_without_slot_are_counted)
{
	struct drain_counts counts;

	make(4, 64, STORE_DISCARD);
	store.head->discarded = 7;
	pass(DRAIN_ALL);
	cr_assert_eq(drain_finish(drain, &sink), 0);
	cr_assert_eq(seen.count, 2);
	cr_assert_eq(seen.heads[0].discarded, 0, "an empty packet goes before the losses");
	cr_assert_eq(seen.heads[1].tid, 0);
	cr_assert_eq(seen.heads[1].discarded, 7);
	cr_assert_eq(seen.heads[1].seq, 1);
	drain_count(drain, &counts);
	cr_assert_eq(counts.discarded, 7);
	release();
}

Test(drain, finish_writes_losses_of_live_streams)
{
	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	sample_store_event(&store, sample_store_page(&store, 0, 0), 1, 2000);
	store.slots[0].discarded = 3;
	pass(DRAIN_ALL);
	drain_finish(drain, &sink);
	cr_assert_eq(seen.count, 2);
	cr_assert_eq(seen.heads[1].discarded, 3);
	release();
}

Test(drain, refused_packet_counts_as_discarded)
{
	struct drain_counts counts;

	make(4, 64, STORE_DISCARD);
	sample_store_slot(&store, 0, 100, 0);
	fill(sample_store_page(&store, 0, 0), 4);
	seen.fail = -ENOSPC;
	cr_assert_eq(pass(DRAIN_READY), -ENOSPC);
	cr_assert_eq(store.pages[0].state, PAGE_FREE, "the program does not stall");
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded, 0);
	cr_assert_eq(counts.discarded, 4);
	seen.fail = 0;
	drain_finish(drain, &sink);
	cr_assert_eq(seen.heads[seen.count - 1].discarded, 4);
	release();
}

Test(drain, new_refuses_memfd_without_shrink_seal)
{
	int fd = memfd_create("x", MFD_ALLOW_SEALING);

	sample_store_make(&store, 4, 64, STORE_DISCARD);
	cr_assert_eq(ftruncate(fd, (off_t)store.bytes), 0);
	cr_assert_eq(pwrite(fd, store.head, sizeof(*store.head), 0), (ssize_t)sizeof(*store.head));
	cr_assert_eq(drain_new(&drain, fd, 1), -WM_E_PROTOCOL);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	cr_assert_eq(drain_new(&drain, fd, 1), 0);
	release();
	close(fd);
}

Test(drain, new_refuses_layout_outside_memory)
{
	struct wm_store good;
	uint64_t *const offsets[] = { &good.slots_offset, &good.taken_offset, &good.pages_offset,
				      &good.data_offset, &good.bytes };
	uint32_t *const counts[] = { &good.slot_count, &good.page_count };
	static const uint64_t bad[] = {
		0, 1, UINT64_MAX, UINT64_MAX - 4095, UINT64_C(1) << 63, 4096
	};

	sample_store_make(&store, 4, 64, STORE_DISCARD);
	good = *store.head;
	for (size_t o = 0; o < 5; o++) {
		for (size_t b = 0; b < sizeof(bad) / sizeof(bad[0]); b++) {
			uint64_t was = *offsets[o];

			if (bad[b] == was)
				continue;
			*offsets[o] = bad[b];
			*store.head = good;
			*offsets[o] = was;
			cr_assert_eq(drain_new(&drain, store.fd, 1), -WM_E_PROTOCOL, "%zu %zu", o,
				     b);
		}
	}
	for (size_t c = 0; c < 2; c++) {
		uint32_t was = *counts[c];

		*counts[c] = UINT32_MAX;
		*store.head = good;
		*counts[c] = was;
		cr_assert_eq(drain_new(&drain, store.fd, 1), -WM_E_PROTOCOL);
	}
	*store.head = good;
	cr_assert_eq(drain_new(&drain, store.fd, 1), 0);
	release();
}

/* The bytes that a test may corrupt: all but the data, which the drain does not read. */
static size_t spoil_bytes(void)
{
	return (size_t)(store.data - (unsigned char *)store.head);
}

Test(drain, corrupt_memory_neither_crashes_nor_hangs)
{
	srand(7);
	for (int round = 0; round < 300; round++) {
		make(16, 64, (uint32_t)round % 4);
		for (int turn = 0; turn < 12; turn++) {
			unsigned char *start = (unsigned char *)store.head;

			for (int i = 0; i < 400; i++) {
				size_t at = (size_t)rand() % spoil_bytes();

				start[at] = (unsigned char)(rand() % 8 ? rand() % 4 : rand());
			}
			for (int i = 0; i < 40; i++) {
				struct wm_page *page = &store.pages[rand() % 64];

				page->state = (uint32_t)rand() % 5;
				page->slot = (uint32_t)rand() % 18;
				page->commit = (uint32_t)rand() % (STORE_PAGE_BYTES + 64);
				store.taken[rand() % 64] = (uint32_t)rand() % 2;
			}
			drain_scan(drain, (enum drain_reach)(turn % 3));
			drain_take(drain, turn % 3 == DRAIN_PEEK ? &live_sink : &sink);
		}
		pass(DRAIN_ALL);
		drain_finish(drain, &sink);
		release();
	}
}

#define STRESS_EVENTS 400000u
#define STRESS_SLOTS 3u
#define STRESS_PAGE_BYTES 4096u /* full before it must be, so that there are more of them */

/*
 * Write one stream, in four pages that no other writer uses. If none is free, events are discarded.
 */
static void *stress_writer(void *data)
{
	uint32_t slot = (uint32_t)(uintptr_t)data, count = 0;
	struct wm_page *page = NULL;

	for (uint32_t i = 0; i < STRESS_EVENTS; i++) {
		if (page && page->commit + 8 > STRESS_PAGE_BYTES) {
			__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
			page = NULL;
		}
		if (!page) {
			uint32_t mine = slot * 4 + count % 4;

			if (!__atomic_load_n(&store.taken[mine], __ATOMIC_ACQUIRE)) {
				page = sample_store_page(&store, mine, slot);
				count++;
			}
		}
		if (page)
			sample_store_event(&store, page, 1, page->begin_ticks + page->events);
		else
			__atomic_fetch_add(&store.slots[slot].discarded, 1, __ATOMIC_RELAXED);
	}
	if (page)
		__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
	__atomic_store_n(&store.slots[slot].state, SLOT_ENDED, __ATOMIC_RELEASE);
	return NULL;
}

Test(drain, concurrent_writers_lose_no_event_uncounted)
{
	pthread_t threads[STRESS_SLOTS];
	struct drain_counts counts;
	int left = 1, turn = 0;

	make(8, 12, STORE_DISCARD);
	seen.checks_times = 1;
	for (uint32_t i = 0; i < STRESS_SLOTS; i++)
		sample_store_slot(&store, i, 100 + i, 0);
	for (uint32_t i = 0; i < STRESS_SLOTS; i++)
		pthread_create(&threads[i], NULL, stress_writer, (void *)(uintptr_t)i);
	while (left) {
		pass(turn++ % 2 ? DRAIN_PARTS : DRAIN_READY);
		left = 0;
		for (uint32_t i = 0; i < STRESS_SLOTS; i++)
			left |= __atomic_load_n(&store.slots[i].state, __ATOMIC_ACQUIRE) !=
				SLOT_FREE;
	}
	for (uint32_t i = 0; i < STRESS_SLOTS; i++)
		pthread_join(threads[i], NULL);
	drain_finish(drain, &sink);
	drain_count(drain, &counts);
	cr_assert_eq(counts.recorded, seen.all_events);
	cr_assert_eq(counts.recorded + counts.discarded, STRESS_EVENTS * STRESS_SLOTS);
	for (size_t i = 1; i < seen.count && i < SEEN_MAX; i++)
		for (size_t j = i; j-- > 0;)
			if (seen.heads[j].instance == seen.heads[i].instance) {
				cr_assert_eq(seen.heads[i].seq, seen.heads[j].seq + 1);
				break;
			}
	release();
}
