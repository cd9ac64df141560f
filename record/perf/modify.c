/* SPDX-License-Identifier: MIT */
/*
 * Change what is watched, in place.
 *
 * The kernel changes an event and what inherited it one after the other, each by disable, change,
 * enable; at an error it stops where it is, and leaves the one that failed off if it had been
 * opened disabled. So whatever happens, all that may have been touched are given the old source
 * again, which enables them.
 */
#include "record/perf/object_own.h"
#include "target/process/stop_threads.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <waymark/error.h>

#define LATE_PASSES 3

/* Modify instances from `first`, which counts down to 0 at `end`. *done: how many were modified. */
static int change(const struct perf_object *object, const struct event_source *sources,
		  uint8_t generation, size_t end, size_t *done)
{
	struct instance_form form = perf_object_form(object);

	form.generation = generation;
	for (size_t i = 0; i < end; i++) {
		int err = instance_modify(&object->instances[i],
					  &sources[object->instances[i].source], &form);

		if (err) {
			*done = i;
			return err;
		}
	}
	*done = end;
	return 0;
}

/* Those that were changed, and the one that refused. */
static int put_back(struct perf_object *object, size_t changed)
{
	size_t end = changed < object->count ? changed + 1 : changed, done;

	return change(object, object->sources, object->generation, end, &done);
}

/*
 * A thread that was started meanwhile may have some of the old and some of the new, for the kernel
 * copies the source without its lock. So change all again as long as there are newcomers.
 */
static int change_late(struct perf_object *object, const struct event_source *sources,
		       uint8_t generation)
{
	size_t done;
	int err = 0;

	for (int i = 0; i < LATE_PASSES && !err && perf_object_has_newcomers(object) > 0; i++)
		err = change(object, sources, generation, object->count, &done);
	return err;
}

static int change_all(struct perf_object *object, const struct event_source *sources,
		      int is_stopped, uint8_t generation, struct detail detail)
{
	size_t changed = 0;
	int err = change(object, sources, generation, object->count, &changed);

	if (err) /* what the kernel says of none, it says of the first */
		detail_set(detail, err, "source %u", object->instances[changed].source);
	if (!err && !is_stopped && object->request.scope == EVENT_PROCESS)
		err = change_late(object, sources, generation);
	if (!err && object->request.settle)
		err = object->request.settle(object->request.settle_data, generation);
	if (err && put_back(object, changed))
		return detail_set(detail, -WM_E_EVENT_TORN, "%zu events", object->count);
	return err;
}

int perf_object_modify(struct perf_object *object, const struct event_source *sources,
		       enum event_modify how, struct event_gap *gap, struct detail detail)
{
	struct event_gap own = { .generation = object->generation };
	uint8_t generation = (uint8_t)(object->generation + 1);
	struct stop *stop = NULL;
	int err = object->state == EVENT_ARMED && !object->disarmed_ns ? 0 : -EINVAL;

	for (unsigned int i = 0; i < object->request.source_count && !err; i++)
		err = perf_source_check(&sources[i], object->request.flags, detail);
	if (!err)
		err = perf_sources_proven(&object->request, sources, detail);
	if (!err && how == EVENT_MODIFY_STOPPED)
		err = perf_object_stop(object, &stop);
	if (!err) {
		object->state = EVENT_MODIFYING; /* armed -> modifying */
		if (!stop && object->request.scope == EVENT_PROCESS)
			perf_object_has_newcomers(object);
		own.first_ns = ticks_monotonic_ns();
		err = change_all(object, sources, stop != NULL, generation, detail);
		own.last_ns = ticks_monotonic_ns();
		own.was_stopped = stop != NULL;
		object->state = EVENT_ARMED; /* modifying -> armed */
		if (!err) {
			object->generation = own.generation = generation;
			for (unsigned int i = 0; i < object->request.source_count; i++)
				perf_object_source_set(object, i, &sources[i]);
		}
	}
	stop_resume(stop);
	if (!err)
		claims_change(object);
	if (err == -WM_E_EVENT_TORN)
		perf_object_disarm(object);
	if (gap)
		*gap = own;
	return err;
}
