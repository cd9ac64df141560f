/* SPDX-License-Identifier: MIT */
#include "record/perf/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ring_init(struct ring *ring, struct perf_event_mmap_page *page, const uint8_t *data,
	      uint64_t bytes)
{
	*ring = (struct ring){ .page = page, .data = data, .bytes = bytes };
	if (!bytes || bytes & (bytes - 1))
		return -EINVAL;
	ring->tail = page->data_tail;
	ring->record = malloc(RING_RECORD_MAX);
	return ring->record ? 0 : -ENOMEM;
}

void ring_release(struct ring *ring)
{
	free(ring->record);
	*ring = (struct ring){ 0 };
}

static void copy_round(uint8_t *to, const uint8_t *area, uint64_t bytes, uint64_t offset,
		       uint64_t count)
{
	uint64_t at = offset % bytes, first = bytes - at < count ? bytes - at : count;

	memcpy(to, area + at, first);
	memcpy(to + first, area, count - first);
}

int ring_next(struct ring *ring, const struct perf_event_header **record)
{
	struct perf_event_header header;
	uint64_t head;

	/*
	 * pairs with the barrier in the kernel's perf_output_get_handle(): what was read stays read
	 * before this
	 */
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	/*
	 * pairs with that in perf_output_put_handle(): the records are there before the head says
	 * so
	 */
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	if (head == ring->tail)
		return 0;
	if (head - ring->tail > ring->bytes || head - ring->tail < sizeof(header))
		goto damaged;
	copy_round((uint8_t *)&header, ring->data, ring->bytes, ring->tail, sizeof(header));
	if (header.size < sizeof(header) || header.size > head - ring->tail)
		goto damaged;
	copy_round(ring->record, ring->data, ring->bytes, ring->tail, header.size);
	/* use the size that was read once: the record's own may have changed */
	memcpy(ring->record, &header, sizeof(header));
	ring->tail += header.size;
	*record = (const struct perf_event_header *)(const void *)ring->record;
	return 1;
damaged:
	ring->tail = head;
	return -EBADMSG;
}

int ring_aux_copy(uint8_t *to, const uint8_t *area, uint64_t bytes, uint64_t offset, uint64_t count)
{
	if (!bytes || count > bytes)
		return -EINVAL;
	copy_round(to, area, bytes, offset, count);
	return 0;
}

void ring_aux_consume(struct perf_event_mmap_page *page, uint64_t position)
{
	/* pairs with the kernel's perf_aux_output_begin(), which reads it before it writes there */
	__atomic_store_n(&page->aux_tail, position, __ATOMIC_RELEASE);
}
