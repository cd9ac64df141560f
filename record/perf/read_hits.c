/* SPDX-License-Identifier: MIT */
/* Hits read from the rings; those outside of armed are counted and dropped. */
#include "record/perf/object_own.h"

#include <errno.h>

static int is_within(const struct perf_object *object, const struct event_record *record)
{
	return record->time_ns >= object->armed_ns &&
	       (!object->disarmed_ns || record->time_ns <= object->disarmed_ns);
}

int perf_object_drain(struct perf_object *object, int is_last,
		      int (*take)(void *data, const struct event_record *record), void *data)
{
	const struct rings_form form = {
		.has_read = perf_object_is_threads(object) && perf_object_inherits(object) &&
			    !object->is_exchanged,
		.has_callers = (object->request.flags & EVENT_CALLERS) != 0,
		.registers = rings_registers(object->request.flags),
	};
	size_t settled, taken = 0;
	int err, is_lacking = perf_object_is_lacking(object);

	if (!(object->request.flags & EVENT_RINGS))
		return -EINVAL;
	err = rings_read(&object->rings, form, is_last, &settled);
	while (!err && taken < settled) {
		struct event_record *record = &object->rings.pending[taken++];

		record->after_loss = (uint8_t)(rings_after_loss(&object->rings, record->time_ns) |
					       is_lacking);
		record->address = object->sources[record->source].address;
		if (is_within(object, record)) {
			err = take(data, record);
		} else {
			object->rings.stray++;
			object->strays[record->source]++;
		}
		object->rings.taken += is_within(object, record);
	}
	rings_drop(&object->rings, taken);
	return err;
}

uint64_t perf_object_forks(const struct perf_object *object)
{
	return object->rings.forks;
}

/*
 * The kernel's records of losses come with the next that finds room; the counts know of the last
 * ones too.
 */
uint64_t perf_object_lost(const struct perf_object *object)
{
	uint64_t hits = 0,
		 reported = object->rings.taken + object->rings.stray + object->rings.pending_count;

	if (object->state != EVENT_DISARMED || !(object->request.flags & EVENT_RINGS))
		return object->rings.lost;
	for (unsigned int i = 0; i < object->request.source_count; i++)
		hits += object->hits[i];
	return hits > reported ? hits - reported : 0;
}

uint64_t perf_object_stray_of(const struct perf_object *object, unsigned int source)
{
	return object->strays[source];
}

uint64_t perf_object_stray(const struct perf_object *object)
{
	return object->rings.stray;
}
