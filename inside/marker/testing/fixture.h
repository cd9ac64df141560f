/* SPDX-License-Identifier: MIT */
/*
 * A fixture for tests of the hit path: the test program's own markers, armed by hand, with stores
 * of its own, and a reader of their pages that shares no code with trace/.
 */
#ifndef INSIDE_MARKER_TESTING_FIXTURE_H
#define INSIDE_MARKER_TESTING_FIXTURE_H

#include "inside/marker/plan.h"
#include "inside/store/event_store.h"
#include "inside/store/thread_writer.h"

#include <stdint.h>

/* store_init() and a store in lane 0 (with more lanes by fixture_store()). */
void fixture_make(uint64_t buffer_bytes, uint32_t policy);
void fixture_store(unsigned int lane, uint64_t buffer_bytes, uint32_t policy);

/* Arm every site of the marker for these lanes (bits). Its event id is `id`. */
void fixture_arm(const char *name, uint32_t id, unsigned int lanes);
void fixture_arm_probe(const char *name, uint32_t id, unsigned int lanes,
		       const struct plan_probe *probe, unsigned int probes);
void fixture_disarm(const char *name);

/* One event in a page. */
struct fixture_event {
	uint32_t id, tid, depth, slot;
	uint64_t ticks;
	int extended;
	const unsigned char *fields;
};

/*
 * Visit the events of a lane's OPEN and FULL pages, slot by slot and in their order; fails the test
 * on anything that abi/page.h does not allow. `width(id, fields)` gives the bytes of an event's
 * fields. Returns how many there were.
 */
uint64_t fixture_read(unsigned int lane,
		      uint64_t (*width)(uint32_t id, const unsigned char *fields),
		      void (*visit)(const struct fixture_event *event, void *data), void *data);

/* All that the lane's store counts as lost. */
uint64_t fixture_discarded(unsigned int lane);

/* Take every FULL page and give it back, as the outside does; the number of events in them. */
uint64_t fixture_drain(unsigned int lane);

#endif
