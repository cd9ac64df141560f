/* SPDX-License-Identifier: MIT */
/* A store that is filled by hand, with a drain on it, for the tests of drain.c. */
#ifndef RECORD_DRAIN_TESTING_FILLED_H
#define RECORD_DRAIN_TESTING_FILLED_H

#include "record/drain/drain.h"
#include "record/session/testing/store.h"

#include <criterion/criterion.h>
#include <string.h>

#define SEEN_MAX 4096

struct seen {
	struct wm_packet heads[SEEN_MAX];
	uint64_t events[SEEN_MAX];
	size_t bytes[SEEN_MAX];
	size_t count;
	uint64_t all_events;
	int checks_times;
	uint64_t last_ticks[8]; /* of the last event, by tid modulo 8 */
	int fail;		/* what to return */
};

/* Check that a packet is within one page, even if the page's own data is corrupt. */
static inline void check_bounds(const struct drain_packet *packet)
{
	const volatile unsigned char *content = packet->content;

	cr_assert_leq(packet->bytes, STORE_PAGE_BYTES - PAGE_HEAD_BYTES);
	if (packet->bytes)
		(void)(content[0] + content[packet->bytes - 1]);
}

/* Check that a stream's events are within their packets' times; each is a header of four bytes. */
static inline void check_times(struct seen *seen, const struct drain_packet *packet)
{
	const uint32_t mask = (1u << EVENT_TICK_BITS) - 1;
	uint64_t ticks = packet->head->begin_ticks;

	for (size_t at = 0; at < packet->bytes; at += EVENT_COMPACT_BYTES) {
		uint32_t header;

		memcpy(&header, (const char *)packet->content + at, sizeof(header));
		ticks += ((header >> 5) - (uint32_t)ticks) & mask;
	}
	cr_assert_leq(ticks, packet->head->end_ticks);
	cr_assert_geq(packet->head->begin_ticks, seen->last_ticks[packet->head->tid % 8]);
	seen->last_ticks[packet->head->tid % 8] = ticks;
}

static inline int see(struct drain_packet *packet, void *data)
{
	struct seen *seen = data;

	check_bounds(packet);
	if (seen->fail)
		return seen->fail;
	if (seen->count < SEEN_MAX) {
		seen->heads[seen->count] = *packet->head;
		seen->events[seen->count] = packet->events;
		seen->bytes[seen->count] = packet->bytes;
	}
	if (seen->checks_times)
		check_times(seen, packet);
	seen->count++;
	seen->all_events += packet->events;
	return 0;
}

static struct sample_store store;
static struct drain *drain;
static struct seen seen;
static const struct drain_sink sink = { see, &seen };

static inline void make(uint32_t slots, uint32_t pages, uint32_t policy)
{
	memset(&seen, 0, sizeof(seen));
	sample_store_make(&store, slots, pages, policy);
	cr_assert_eq(drain_new(&drain, store.fd, 4242), 0);
}

static inline void release(void)
{
	drain_free(drain);
	sample_store_release(&store);
}

static inline int pass(enum drain_reach reach)
{
	drain_scan(drain, reach);
	return drain_take(drain, &sink);
}

static inline void fill(struct wm_page *page, unsigned int events)
{
	for (unsigned int i = 0; i < events; i++)
		sample_store_event(&store, page, 1, page->begin_ticks + i);
	sample_store_close(&store, page);
}

#endif
