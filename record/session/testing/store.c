/* SPDX-License-Identifier: MIT */
#include "record/session/testing/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_PAGE_BYTES 4096u

static uint64_t round_up(uint64_t value)
{
	return (value + MEMORY_PAGE_BYTES - 1) / MEMORY_PAGE_BYTES * MEMORY_PAGE_BYTES;
}

void sample_store_make(struct sample_store *store, uint32_t slots, uint32_t pages, uint32_t policy)
{
	struct wm_store head = {
		.magic = STORE_MAGIC,
		.version = STORE_VERSION,
		.pid = (uint32_t)getpid(),
		.policy = policy,
		.slot_count = slots,
		.page_count = pages,
		.slots_offset = sizeof(head),
	};
	unsigned char *map;

	head.taken_offset = round_up(head.slots_offset + slots * sizeof(struct wm_slot));
	head.pages_offset = round_up(head.taken_offset + pages * sizeof(uint32_t));
	head.data_offset = round_up(head.pages_offset + (uint64_t)pages * sizeof(struct wm_page));
	head.bytes = head.data_offset + (uint64_t)pages * STORE_PAGE_BYTES;

	store->bytes = head.bytes;
	store->fd = memfd_create("sample-store", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (store->fd < 0 || ftruncate(store->fd, (off_t)head.bytes) < 0 ||
	    fcntl(store->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		abort();
	map = mmap(NULL, head.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, store->fd, 0);
	if (map == MAP_FAILED)
		abort();
	memcpy(map, &head, sizeof(head));
	store->head = (struct wm_store *)map;
	store->slots = (struct wm_slot *)(map + head.slots_offset);
	store->taken = (uint32_t *)(map + head.taken_offset);
	store->pages = (struct wm_page *)(map + head.pages_offset);
	store->data = map + head.data_offset;
}

void sample_store_release(struct sample_store *store)
{
	munmap(store->head, store->bytes);
	close(store->fd);
}

void sample_store_slot(struct sample_store *store, uint32_t slot, uint32_t tid, uint32_t depth)
{
	struct wm_slot *to = &store->slots[slot];

	to->tid = tid;
	to->depth = depth;
	to->pages = 0;
	to->discarded = 0;
	to->written = 0;
	to->next_seq = 0;
	to->instance = __atomic_fetch_add(&store->head->next_instance, 1, __ATOMIC_RELAXED);
	strcpy(to->comm, "sample");
	__atomic_store_n(&to->state, SLOT_LIVE, __ATOMIC_RELEASE);
}

struct wm_page *sample_store_page(struct sample_store *store, uint32_t number, uint32_t slot)
{
	struct wm_page *page = &store->pages[number];
	struct wm_slot *of = &store->slots[slot];

	__atomic_store_n(&store->taken[number], 1, __ATOMIC_RELAXED);
	page->commit = PAGE_HEAD_BYTES;
	page->events = 0;
	page->slot = slot;
	page->seq = of->next_seq++;
	page->begin_ticks = page->end_ticks = 1000 * (page->seq + 1);
	page->discarded = of->discarded;
	page->before = of->written;
	__atomic_fetch_add(&of->pages, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&page->state, PAGE_OPEN, __ATOMIC_RELEASE);
	return page;
}

void sample_store_close(struct sample_store *store, struct wm_page *page)
{
	store->slots[page->slot].written = page->before + page->events;
	__atomic_store_n(&page->state, PAGE_FULL, __ATOMIC_RELEASE);
}

void sample_store_event(struct sample_store *store, struct wm_page *page, uint32_t id,
			uint64_t ticks)
{
	size_t number = (size_t)(page - store->pages);
	uint32_t header = id | (uint32_t)ticks << 5;

	memcpy(store->data + number * STORE_PAGE_BYTES + page->commit, &header, sizeof(header));
	page->end_ticks = ticks;
	__atomic_store_n(&page->word, page->word + PAGE_WORD(EVENT_COMPACT_BYTES, 1),
			 __ATOMIC_RELEASE);
}
