/* SPDX-License-Identifier: MIT */
/*
 * Reading a counter of the processor in user space, by the page that the kernel keeps for a perf
 * event (struct perf_event_mmap_page of linux/perf_event.h, whose protocol this follows). No system
 * call.
 */
#ifndef INSIDE_MARKER_PERF_PAGE_H
#define INSIDE_MARKER_PERF_PAGE_H

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_PAGE_TRIES 1000

struct perf_page_read {
	uint64_t count;
	/*
	 * How long the event was to count, and had no counter. The kernel writes both times of the
	 * page whenever it gives or takes one, and as long as there is one they grow alike: so no
	 * clock is needed for the difference.
	 */
	uint64_t uncounted_ns;
};

/*
 * Read the event of a page mapped for the calling thread. `pmc` is rdpmc. 0; -1 if the kernel does
 * not permit it, if the event is not on a counter now (index 0), or if the page changed each time.
 * A child of vfork in its parent's place finds index 0: the parent sleeps. The kernel writes the
 * page on this thread's CPU alone, in between its instructions, so no fence of the processor is
 * needed.
 */
static inline int perf_page_read(const volatile struct perf_event_mmap_page *page,
				 uint64_t (*pmc)(uint32_t counter), struct perf_page_read *read)
{
	for (int tries = 0; tries < PERF_PAGE_TRIES; tries++) {
		uint32_t lock = page->lock, index;
		unsigned int unused_bits;

		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		read->uncounted_ns = page->time_enabled - page->time_running;
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
