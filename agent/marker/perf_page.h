/* SPDX-License-Identifier: MIT */
/*
 * Reading a counter of the processor in user space, by the page that the kernel keeps for a perf
 * event (struct perf_event_mmap_page of linux/perf_event.h, whose protocol this follows). No system
 * call. No hit uses it yet: docs/design/markers.md, Counts of spans.
 */
#ifndef AGENT_MARKER_PERF_PAGE_H
#define AGENT_MARKER_PERF_PAGE_H

#include "abi/cost.h"

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_PAGE_TRIES 1000

/* What a page says at one moment, and the counter with it. */
struct perf_page_read {
	uint64_t count;
	uint64_t enabled_ns, running_ns;
};

/* Scaled by the time that it counted; COST_UNAVAILABLE: it never did, or the product is too big. */
static inline uint64_t perf_page_scaled(const struct perf_page_read *read)
{
	__uint128_t scaled = read->count;

	if (!read->running_ns)
		return COST_UNAVAILABLE;
	if (read->running_ns != read->enabled_ns)
		scaled = scaled * read->enabled_ns / read->running_ns;
	return scaled < COST_UNAVAILABLE ? (uint64_t)scaled : COST_UNAVAILABLE;
}

/* The time since the kernel wrote the page, as cap_user_time has it. */
static inline uint64_t perf_page_since_ns(const volatile struct perf_event_mmap_page *page,
					  uint64_t tsc)
{
	uint16_t shift = page->time_shift & 63;
	uint64_t mult = page->time_mult;
	uint64_t cycles = tsc >> shift, rest = tsc & ((UINT64_C(1) << shift) - 1);

	return page->time_offset + cycles * mult + ((rest * mult) >> shift);
}

/*
 * Read the event of a page mapped for the calling thread. `pmc` is rdpmc, `tsc` rdtsc. 0; -1
 * if the kernel does not permit it, if the event is not on a counter now (index 0), or if the page
 * changed each time. The kernel writes the page on this thread's CPU alone, in between its
 * instructions, so no fence of the processor is needed.
 */
static inline int perf_page_read(const volatile struct perf_event_mmap_page *page,
				 uint64_t (*pmc)(uint32_t counter), uint64_t (*tsc)(void),
				 struct perf_page_read *read)
{
	for (int tries = 0; tries < PERF_PAGE_TRIES; tries++) {
		uint32_t lock = page->lock, index;
		unsigned int unused_bits;

		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		read->enabled_ns = page->time_enabled;
		read->running_ns = page->time_running;
		if (page->cap_user_time && read->enabled_ns != read->running_ns) {
			uint64_t since_ns = perf_page_since_ns(page, tsc());

			read->enabled_ns += since_ns;
			if (page->index)
				read->running_ns += since_ns;
		}
		index = page->index;
		read->count = (uint64_t)page->offset;
		if (!page->cap_user_rdpmc || !index || !page->pmc_width || page->pmc_width > 64)
			index = 0;
		unused_bits = index ? 64u - page->pmc_width : 0;
		/* the counter has pmc_width bits, and its highest is a sign */
		if (index)
			read->count += (uint64_t)((int64_t)(pmc(index - 1) << unused_bits) >>
						  unused_bits);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		if (page->lock == lock)
			return index ? 0 : -1;
	}
	return -1;
}

#endif
