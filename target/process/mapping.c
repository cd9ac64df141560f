/* SPDX-License-Identifier: MIT */
#include "target/process/mapping.h"

#include "target/process/sealed.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <waymark/error.h>

/* Larger ones are refused: 64 GiB of data, and more streams than a process can have threads. */
#define PAGES_MAX (1u << 22)
#define SLOTS_MAX (1u << 22)

/* Whether `count` items of `item` bytes lie at `offset`, behind `from`; moves `from` past them. */
static int takes(uint64_t *from, uint64_t offset, uint64_t count, uint64_t item, uint64_t align)
{
	/* no product overflows: count is below 2^24, item at most 16 KiB */
	if (offset < *from || offset % align || offset > UINT64_MAX / 2)
		return 0;
	*from = offset + count * item;
	return 1;
}

static int layout_check(const struct wm_store *head, uint64_t bytes)
{
	uint64_t end = sizeof(*head);

	if (head->magic != STORE_MAGIC || head->version != STORE_VERSION)
		return 0;
	if (!head->slot_count || head->slot_count > SLOTS_MAX || !head->page_count ||
	    head->page_count > PAGES_MAX)
		return 0;
	if (head->policy > STORE_NOTIFY || head->clock > STORE_CLOCK_ORDERED)
		return 0;
	return head->bytes == bytes &&
	       takes(&end, head->slots_offset, head->slot_count, sizeof(struct wm_slot), 64) &&
	       takes(&end, head->taken_offset, head->page_count, sizeof(uint32_t), 4) &&
	       takes(&end, head->pages_offset, head->page_count, sizeof(struct wm_page), 64) &&
	       takes(&end, head->data_offset, head->page_count, STORE_PAGE_BYTES, 4096) &&
	       end <= bytes;
}

int mapping_open(struct mapping *mapping, int fd)
{
	struct wm_store head;
	uint64_t bytes;

	*mapping = (struct mapping){ 0 };
	if (sealed_bytes(fd, &bytes) || bytes < sizeof(struct wm_store))
		return -WM_E_PROTOCOL;

	mapping->bytes = (size_t)bytes;
	mapping->start = mmap(NULL, mapping->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mapping->start == MAP_FAILED) {
		mapping->start = NULL;
		return -errno;
	}
	/* a copy, so that what was checked is what is used */
	memcpy(&head, mapping->start, sizeof(head));
	if (!layout_check(&head, mapping->bytes)) {
		mapping_release(mapping);
		return -WM_E_PROTOCOL;
	}
	mapping->slot_count = head.slot_count;
	mapping->page_count = head.page_count;
	mapping->policy = head.policy;
	/* who reads the times need not know how the TSC was read */
	mapping->clock = head.clock == STORE_CLOCK_ORDERED ? STORE_CLOCK_TSC : head.clock;
	mapping->store = (struct wm_store *)mapping->start;
	mapping->slots = (struct wm_slot *)(mapping->start + head.slots_offset);
	mapping->taken = (uint32_t *)(mapping->start + head.taken_offset);
	mapping->pages = (struct wm_page *)(mapping->start + head.pages_offset);
	mapping->data = mapping->start + head.data_offset;
	return 0;
}

void mapping_release(struct mapping *mapping)
{
	if (mapping->start)
		munmap(mapping->start, mapping->bytes);
	*mapping = (struct mapping){ 0 };
}
