/* SPDX-License-Identifier: MIT */
#include "inside/marker/testing/fixture.h"

#include "abi/site.h"
#include "inside/marker/hit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

extern struct wm_site __start_waymark_sites[], __stop_waymark_sites[];

#define MARKERS_MAX 64

static struct {
	char name[64];
	char kind;
	struct marker marker;
} markers[MARKERS_MAX];

void fixture_store(unsigned int lane, uint64_t buffer_bytes, uint32_t policy)
{
	struct store_options options = { .buffer_bytes = buffer_bytes,
					 .policy = policy,
					 .block_ns = 200000000 };
	int fd;

	cr_assert_eq(store_open(lane, &options, &fd), 0);
	close(fd);
}

void fixture_make(uint64_t buffer_bytes, uint32_t policy)
{
	cr_assert_eq(store_init(), 0);
	fixture_store(0, buffer_bytes, policy);
}

static const char *site_text(const struct wm_site *entry)
{
	return (const char *)&entry->text + entry->text;
}

/* KIND WAY \n SUBSYSTEM \n EVENT \n ... */
static int is_named(const struct wm_site *entry, const char *name)
{
	const char *text = site_text(entry) + 3;
	const char *colon = strchr(name, ':');
	size_t subsystem = (size_t)(colon - name);

	return !strncmp(text, name, subsystem) && text[subsystem] == '\n' &&
	       !strncmp(text + subsystem + 1, colon + 1, strlen(colon + 1)) &&
	       text[subsystem + 1 + strlen(colon + 1)] == '\n';
}

static struct marker *marker_of(const char *name, char kind)
{
	for (int i = 0; i < MARKERS_MAX; i++) {
		if (!markers[i].name[0]) {
			strcpy(markers[i].name, name);
			markers[i].kind = kind;
		}
		if (!strcmp(markers[i].name, name) && markers[i].kind == kind)
			return &markers[i].marker;
	}
	cr_assert_fail("too many markers");
	return NULL;
}

/* ThreadSanitizer keeps no shadow of code. */
static __attribute__((noinline, no_sanitize("thread"))) void write_site(const struct wm_site *entry,
									unsigned char byte)
{
	unsigned char *site = (unsigned char *)(uintptr_t)&entry->site + entry->site;
	uintptr_t page = (uintptr_t)site & ~(uintptr_t)4095;

	if (!entry->site)
		return;
	cr_assert_eq(mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	cr_assert(*site == SITE_DORMANT || *site == SITE_ARMED);
	*site = byte;
}

void fixture_arm_probe(const char *name, uint32_t id, unsigned int lanes,
		       const struct plan_probe *probe, unsigned int probes)
{
	int found = 0;

	for (struct wm_site *entry = __start_waymark_sites; entry < __stop_waymark_sites; entry++) {
		struct wm_record *record = (void *)((char *)&entry->record + entry->record);
		struct marker *marker;
		struct plan *plan;

		if (!is_named(entry, name))
			continue;
		marker = marker_of(name, site_text(entry)[0]);
		plan = calloc(1, sizeof *plan + probes * sizeof *probe);
		memcpy(plan->types, entry->types, sizeof plan->types);
		plan->uses_tsc = 1;
		plan->probe_count = probes;
		if (probes)
			memcpy(plan->probes, probe, probes * sizeof *probe);
		for (uint32_t lane = 0; lane < SESSIONS_MAX; lane++) {
			if (lanes >> lane & 1)
				plan->consumers[plan->consumer_count++] = (struct plan_consumer){
					.event_id = id, .lane = (uint8_t)lane
				};
		}
		plan_finish(plan);
		__atomic_store_n(&marker->plan, plan, __ATOMIC_RELEASE);
		record->enter = hit_entry(entry->types);
		record->agent_word = (uintptr_t)marker;
		write_site(entry, SITE_ARMED);
		found = 1;
	}
	cr_assert(found, "%s", name);
}

void fixture_arm(const char *name, uint32_t id, unsigned int lanes)
{
	fixture_arm_probe(name, id, lanes, NULL, 0);
}

void fixture_disarm(const char *name)
{
	for (struct wm_site *entry = __start_waymark_sites; entry < __stop_waymark_sites; entry++) {
		if (!is_named(entry, name))
			continue;
		write_site(entry, SITE_DORMANT);
		__atomic_store_n(&marker_of(name, site_text(entry)[0])->plan, NULL,
				 __ATOMIC_RELEASE);
	}
}

struct page_ref {
	const struct wm_page *page;
	const unsigned char *base;
};

static int by_slot_and_seq(const void *a, const void *b)
{
	const struct wm_page *x = ((const struct page_ref *)a)->page;
	const struct wm_page *y = ((const struct page_ref *)b)->page;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static uint64_t read_page(struct store *store, const struct page_ref *ref,
			  uint64_t (*width)(uint32_t, const unsigned char *),
			  void (*visit)(const struct fixture_event *, void *), void *data)
{
	const unsigned char *at = ref->base + PAGE_HEAD_BYTES, *end = ref->base + ref->page->commit;
	uint64_t ticks = ref->page->begin_ticks, events = 0;

	cr_assert_leq(ref->page->commit, STORE_PAGE_BYTES);
	while (at < end) {
		struct fixture_event event = { .slot = ref->page->slot };
		uint32_t word;

		memcpy(&word, at, 4);
		event.id = word & 31;
		if (event.id == EVENT_EXTENDED) {
			event.extended = 1;
			memcpy(&event.id, at + 1, 4);
			memcpy(&ticks, at + 5, 8);
			at += EVENT_EXTENDED_BYTES;
		} else {
			uint64_t low = word >> 5, mask = (UINT64_C(1) << EVENT_TICK_BITS) - 1;

			if (low < (ticks & mask))
				ticks += mask + 1;
			ticks = (ticks & ~mask) | low;
			at += EVENT_COMPACT_BYTES;
		}
		event.ticks = ticks;
		event.tid = store->slots[event.slot].tid;
		event.depth = store->slots[event.slot].depth;
		event.fields = at;
		if (visit)
			visit(&event, data);
		at += width(event.id, at);
		events++;
	}
	cr_assert_eq(at, end, "an event is cut");
	cr_assert_leq(ticks, ref->page->end_ticks);
	cr_assert_eq(events, ref->page->events);
	return events;
}

uint64_t fixture_read(unsigned int lane, uint64_t (*width)(uint32_t, const unsigned char *),
		      void (*visit)(const struct fixture_event *, void *), void *data)
{
	struct store *store = &stores[lane];
	struct page_ref *refs = calloc(store->page_count, sizeof *refs);
	uint64_t events = 0;
	size_t count = 0;

	for (uint32_t i = 0; i < store->page_count; i++) {
		const struct wm_page *page = &store->pages[i];

		if (page->state == PAGE_OPEN || page->state == PAGE_FULL)
			refs[count++] = (struct page_ref){ page,
							   store->data + i * STORE_PAGE_BYTES };
	}
	qsort(refs, count, sizeof *refs, by_slot_and_seq);
	for (size_t i = 0; i < count; i++)
		events += read_page(store, &refs[i], width, visit, data);
	free(refs);
	return events;
}

uint64_t fixture_discarded(unsigned int lane)
{
	struct store *store = &stores[lane];
	uint64_t discarded = store->head->discarded + store->head->overwritten;

	for (uint32_t i = 0; i < store->slot_count; i++)
		discarded += store->slots[i].discarded;
	return discarded;
}

uint64_t fixture_drain(unsigned int lane)
{
	struct store *store = &stores[lane];
	struct timespec now;
	uint64_t events = 0;

	for (uint32_t i = 0; i < store->page_count; i++) {
		struct wm_page *page = &store->pages[i];
		uint32_t full = PAGE_FULL;

		if (!__atomic_compare_exchange_n(&page->state, &full, PAGE_TAKEN, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		events += page->events;
		__atomic_fetch_sub(&store->slots[page->slot].pages, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&page->state, PAGE_FREE, __ATOMIC_RELEASE);
		__atomic_store_n(&store->taken[i], 0, __ATOMIC_RELEASE);
		__atomic_fetch_add(&store->head->freed, 1, __ATOMIC_RELEASE);
	}
	clock_gettime(CLOCK_MONOTONIC, &now);
	__atomic_store_n(&store->head->drained_ns,
			 (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
			 __ATOMIC_RELAXED);
	return events;
}
