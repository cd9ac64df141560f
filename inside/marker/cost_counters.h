/* SPDX-License-Identifier: MIT */
/*
 * A thread's counters of the processor, which its hits read by rdpmc (perf_page.h, cost_read.c).
 *
 * A thread asks for them at its first hit that wants some, and waits for a moment. The control
 * thread opens the events, maps the page of each, and closes the descriptors. They were in its own
 * table all the time: the program can neither see, close nor reuse one. The mapping keeps the
 * event.
 *
 *	counters_asked = births	      its thread
 *	counters, then counters_answered = births	the control thread
 *
 * A writer's next thread has another number of births, and asks again.
 */
#ifndef INSIDE_MARKER_COST_COUNTERS_H
#define INSIDE_MARKER_COST_COUNTERS_H

#include "abi/cost.h"
#include "inside/store/thread_writer.h"

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct cost_counters {
	struct cost_counters *next;
	struct writer *writer;
	uint32_t births;
	int32_t tid;
	/* by kind, from COST_CYCLES on; NULL: it could not be had, or no one wants it */
	const volatile struct perf_event_mmap_page *pages[COST_COUNTERS];
};

/* The calling thread's; NULL: none yet. Hit path. */
static inline const struct cost_counters *cost_counters_of(const struct writer *writer)
{
	const struct cost_counters *counters = __atomic_load_n(&writer->counters, __ATOMIC_ACQUIRE);

	return counters && counters->births == __atomic_load_n(&writer->births, __ATOMIC_RELAXED)
		       ? counters
		       : NULL;
}

/* Ask, and wait for the answer for some ms at most. Ordinary code: by vectors_call_aside(). */
long cost_counters_ask(void *writer);

/* Answer threads that ask. Control thread. */
void cost_counters_serve(void);

/* Sessions want other kinds: give threads that have counters what they lack. With the lock. */
void cost_counters_extend(void);

/*
 * Unmap those of threads that are gone, and of all threads if no session wants any: once no hit
 * reads them, for which it waits so long. Control thread, without the lock.
 */
void cost_counters_reap(unsigned int timeout_ms);

/* The child of a fork: the kernel maps no such page there. */
void cost_counters_forked(void);

/* perf_event_open(2) of a kind on a thread, a descriptor or -errno; of a test, another event. */
extern long (*cost_counters_open)(unsigned int kind, int32_t tid)
	__attribute__((visibility("hidden")));

#endif
