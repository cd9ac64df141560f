/* SPDX-License-Identifier: MIT */
/*
 * A bed for tests of the hit path: the test program's own markers, armed by hand, with stores of
 * its own, and a reader of their pages that shares no code with trace/.
 */
#ifndef AGENT_MARKER_BED_H
#define AGENT_MARKER_BED_H

#include "agent/marker/plan.h"
#include "agent/store/store.h"
#include "agent/store/writer.h"

#include <stdint.h>

/* store_init() and a store in lane 0 (with more lanes by bed_store()). */
void bed_make(uint64_t buffer_bytes, uint32_t policy);
void bed_store(unsigned int lane, uint64_t buffer_bytes, uint32_t policy);

/* Arm every site of the marker for these lanes (bits). Its event id is `id`. */
void bed_arm(const char *name, uint32_t id, unsigned int lanes);
void bed_arm_probe(const char *name, uint32_t id, unsigned int lanes,
		   const struct plan_probe *probe, unsigned int probes);
void bed_disarm(const char *name);

/* One event in a page. */
struct bed_event {
	uint32_t id, tid, depth, slot;
	uint64_t ticks;
	int extended;
	const unsigned char *fields;
};

/*
 * Visit the events of a lane's OPEN and FULL pages, slot by slot and in their order; fails the test
 * on anything that abi/page.h does not allow. `width(id, fields)` gives the bytes of an event's fields.
 * Returns how many there were.
 */
uint64_t bed_read(unsigned int lane, uint64_t (*width)(uint32_t id, const unsigned char *fields),
		  void (*visit)(const struct bed_event *event, void *data), void *data);

/* All that the lane's store counts as lost. */
uint64_t bed_discarded(unsigned int lane);

/* Take every FULL page and give it back, as the outside does; the number of events in them. */
uint64_t bed_drain(unsigned int lane);

#endif
