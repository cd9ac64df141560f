/* SPDX-License-Identifier: MIT */
/*
 * CPUs that go and come while an object is armed.
 *
 * What the kernel does, as its source has it and as it was seen on Linux 6.1 (hotplug_test.c):
 *
 * - When a CPU goes offline (each but the first does at a suspend), the kernel removes the
 *   CPU's own events from their context permanently, and notifies no one:
 *   perf_event_exit_cpu_context() -> __perf_event_exit_context() -> list_del_event() in
 *   kernel/events/core.c. The descriptor stays and can be read: the count and both times as they
 *   were. When the CPU is back nothing fires, and PERF_EVENT_IOC_ENABLE and MODIFY_ATTRIBUTES
 *   return 0 and change nothing. So we recognise such an event by its running time, which does not
 *   advance, and open a new one.
 * - The register stays accounted to the CPU until the descriptor is closed (hw_breakpoint.c:
 *   release_bp_slot() is the event's destructor). So the old one is read and closed before the new
 *   one is opened.
 * - perf_event_open(2) of an offline CPU's is -ENODEV. But an event of a thread on a CPU belongs to
 *   the thread: it may be opened while the CPU is offline, outlives that, and fires when the thread
 *   runs there again. So has the event that a ring belongs to. These need nothing.
 */
#include "record/perf/object_own.h"
#include "target/process/stop_threads.h"

#include "base/array.h"
#include "record/perf/cpus.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

/* Where the scheduler's clock is as coarse as the tick, no time may seem to pass. */
#define TICKS_NS 12000000

struct event_place *perf_object_place(const struct perf_object *object, int cpu)
{
	for (size_t i = 0; i < object->place_count; i++)
		if (object->places[i].cpu == cpu)
			return &object->places[i];
	return NULL;
}

static struct event_place *place_add(struct perf_object *object, int cpu)
{
	struct event_place *place;

	if (array_grow(&object->places, &object->place_room, object->place_count + 1,
		       sizeof(*object->places)))
		return NULL;
	place = &object->places[object->place_count++];
	*place = (struct event_place){ .cpu = cpu, .known_ns = object->followed_ns };
	return place;
}

static int is_of_place(const struct instance *instance, int cpu)
{
	return instance->tid < 0 && instance->cpu == cpu;
}

/* Of the CPU's first event; the others come and go with it. -ENOENT: it has none. */
static int place_running(const struct perf_object *object, int cpu, uint64_t *running_ns)
{
	struct instance_count count = { 0 };
	int err = -ENOENT;

	for (size_t i = 0; i < object->count && err == -ENOENT; i++)
		if (is_of_place(&object->instances[i], cpu) && object->instances[i].is_first)
			err = instance_read(&object->instances[i], &count);
	*running_ns = count.running_ns;
	return err;
}

int perf_object_place_lives(const struct perf_object *object, int cpu, uint64_t *running_ns)
{
	uint64_t first;

	if (place_running(object, cpu, &first))
		return 0;
	for (int i = 0; i < 2; i++) {
		if (place_running(object, cpu, running_ns))
			return 0;
		if (*running_ns != first)
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = i ? 0 : TICKS_NS }, NULL);
	}
	return 0;
}

int perf_object_follow_begin(struct perf_object *object, uint64_t looked_ns)
{
	object->followed_ns = looked_ns;
	for (size_t i = 0; i < object->count; i++) {
		const struct instance *instance = &object->instances[i];
		struct event_place *place;

		if (instance->tid > 0 || !instance->is_first)
			continue;
		place = place_add(object, instance->cpu);
		if (!place)
			return -ENOMEM;
		place->is_covered = place->is_claimed = 1;
		place->known_ns = ticks_monotonic_ns();
		place_running(object, instance->cpu, &place->running_ns);
	}
	return 0;
}

/* ---- one CPU ---- */

/* What it counted is ours from here on. */
static void place_close(struct perf_object *object, int cpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < object->count; i++) {
		struct instance *instance = &object->instances[i];
		struct instance_count count;

		if (!is_of_place(instance, cpu)) {
			object->instances[kept++] = *instance;
			continue;
		}
		if (!instance_read(instance, &count))
			object->hits[instance->source] += count.hits;
		close(instance->fd);
		object->groups -= instance->is_first;
	}
	object->count = kept;
}

/* Start the instances from `begin` on, opened last: add them to the rings, then enable. */
static int begin_new(struct perf_object *object, size_t begin)
{
	int err = 0;

	for (size_t i = begin; object->rings.count && i < object->count && !err; i++)
		err = rings_add(&object->rings, object->instances[i].fd,
				object->instances[i].source);
	for (size_t i = begin; i < object->count && !err; i++)
		if (object->instances[i].is_leader)
			instance_enable(&object->instances[i]);
	return err;
}

static int place_open(struct perf_object *object, struct event_place *place, struct detail detail)
{
	int err = 0, is_ended;
	size_t begin;

	place_close(object, place->cpu);
	if (object->request.flags & EVENT_RINGS)
		err = rings_open_cpu(&object->rings, (unsigned int)place->cpu);
	if (!err && !place->is_claimed)
		err = claims_add(object, place->cpu);
	place->is_claimed |= !err;
	begin = object->count;
	if (!err)
		err = perf_object_open_group(object, -1, place->cpu, 0, 1, &is_ended, detail);
	if (!err)
		err = begin_new(object, begin);
	if (err)
		place_close(object, place->cpu);
	return err;
}

static int uncovered_add(struct perf_object *object, const struct event_place *place,
			 uint64_t last_ns)
{
	if (array_grow(&object->uncovered, &object->uncovered_room, object->uncovered_count + 1,
		       sizeof(*object->uncovered)))
		return -ENOMEM;
	object->uncovered[object->uncovered_count++] = (struct event_uncovered){
		.cpu = place->cpu,
		.first_ns = place->known_ns > object->armed_ns ? place->known_ns : object->armed_ns,
		.last_ns = last_ns,
	};
	rings_missed(&object->rings, (unsigned int)place->cpu, place->known_ns, last_ns);
	return 0;
}

/* Whether it has them, which is noted. It is online. */
static int place_look(struct perf_object *object, struct event_place *place)
{
	uint64_t running_ns = 0, now = ticks_monotonic_ns();

	if (place->error == -ENODEV)
		place->error = 0;
	if (!place->is_covered)
		return 0;
	if (perf_object_place_lives(object, place->cpu, &running_ns)) {
		place->known_ns = now;
		place->running_ns = running_ns;
		return 1;
	}
	/* until when it had been there */
	if (running_ns > place->running_ns &&
	    place->known_ns + (running_ns - place->running_ns) < now)
		place->known_ns += running_ns - place->running_ns;
	place->is_covered = 0;
	place->error = 0;
	return 0;
}

/* Failing to open now is no error: the coverage reports it, and the next look retries. */
static int place_follow(struct perf_object *object, struct event_place *place, struct detail detail)
{
	uint64_t now;
	int err = place_open(object, place, detail);

	place->error = err;
	if (err)
		return err == -ENOMEM ? err : 0;
	now = ticks_monotonic_ns();
	err = uncovered_add(object, place, now);
	place->is_covered = 1;
	place->known_ns = now;
	place_running(object, place->cpu, &place->running_ns);
	return err;
}

static int is_lacking(const struct event_place *place)
{
	return !place->is_covered && place->error != -ENODEV;
}

int perf_object_is_lacking(const struct perf_object *object)
{
	for (size_t i = 0; i < object->place_count; i++)
		if (is_lacking(&object->places[i]))
			return 1;
	return 0;
}

/* ---- all of them ---- */

static int is_among(int cpu, const unsigned int *cpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if ((int)cpus[i] == cpu)
			return 1;
	return 0;
}

/*
 * Those that are not online, and what they lack then: nothing. But a ring that threads have
 * outlives that.
 */
static void places_offline(struct perf_object *object, const unsigned int *online, size_t count,
			   uint64_t looked_ns)
{
	for (size_t i = 0; i < object->place_count; i++) {
		struct event_place *place = &object->places[i];

		if (is_among(place->cpu, online, count) ||
		    (perf_object_is_threads(object) && place->is_covered))
			continue;
		place->is_covered = 0;
		place->error = -ENODEV;
		place->known_ns = looked_ns; /* nothing ran there until then */
	}
}

/* Those that are online and have no events are given some, unless it is the end. */
static int cpus_follow(struct perf_object *object, const unsigned int *online, size_t count,
		       uint64_t looked_ns, int is_end, struct detail detail)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		struct event_place *place = perf_object_place(object, (int)online[i]);

		if (!place && object->request.scope != EVENT_SYSTEM)
			continue;
		if (!place)
			place = place_add(object, (int)online[i]);
		err = place ? 0 : -ENOMEM;
		if (!err && !place_look(object, place) && !is_end)
			err = place_follow(object, place, detail);
	}
	places_offline(object, online, count, looked_ns);
	return err;
}

/*
 * Open a ring, and an event for it on each thread. Threads that start meanwhile might have the
 * event or not. So where threads inherit events, do this only while all threads are stopped.
 * *open_ns: since when all is seen.
 */
static int threads_open(struct perf_object *object, unsigned int cpu, uint64_t *open_ns,
			struct detail detail)
{
	pid_t one = object->request.pid, *tids = NULL;
	unsigned int groups = object->groups;
	size_t begin = object->count;
	struct stop *stop = NULL;
	int count = 1, is_ended, err = rings_open_cpu(&object->rings, cpu);

	if (!err)
		err = perf_object_stop(object, &stop);
	if (!err && !stop && perf_object_inherits(object))
		err = -WM_E_EVENT_CAME_LATER;
	if (!err && object->request.scope == EVENT_PROCESS)
		count = target_threads(one, &tids);
	if (count < 0)
		err = count;
	for (int i = 0; i < count && !err; i++)
		err = perf_object_open_group(object, tids ? tids[i] : one, (int)cpu, 0, 1,
					     &is_ended, detail);
	if (!err)
		err = begin_new(object, begin);
	*open_ns = ticks_monotonic_ns();
	stop_resume(stop);
	free(tids);
	object->groups = groups; /* of threads, which are known */
	if (!err)
		return 0;
	while (object->count > begin)
		close(object->instances[--object->count].fd);
	rings_close_cpu(&object->rings, cpu);
	return err;
}

/* CPUs that were not even present when the rings were opened. */
static int threads_follow(struct perf_object *object, const unsigned int *online, size_t count,
			  uint64_t looked_ns, int is_end, struct detail detail)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		struct event_place *place = perf_object_place(object, (int)online[i]);
		uint64_t open_ns;

		if (rings_has(&object->rings, online[i]))
			continue;
		if (!place)
			place = place_add(object, (int)online[i]);
		if (!place)
			return -ENOMEM;
		place->error = is_end ? -WM_E_EVENT_CAME_LATER
				      : threads_open(object, online[i], &open_ns, detail);
		place->is_covered = !place->error;
		if (place->is_covered)
			err = uncovered_add(object, place, open_ns);
		else if (place->error == -ENOMEM)
			err = -ENOMEM;
	}
	places_offline(object, online, count, looked_ns);
	return err;
}

static int follow(struct perf_object *object, uint64_t looked_ns, int is_end, struct detail detail)
{
	unsigned int *online;
	size_t count;
	int err = cpus_online(&online, &count);

	if (err)
		return err;
	err = perf_object_is_threads(object)
		      ? threads_follow(object, online, count, looked_ns, is_end, detail)
		      : cpus_follow(object, online, count, looked_ns, is_end, detail);
	free(online);
	return err;
}

/* Whether CPUs that come make a difference. */
static int is_followed(const struct perf_object *object)
{
	return !perf_object_is_threads(object) || object->rings.count;
}

int perf_object_follow(struct perf_object *object, struct detail detail)
{
	uint64_t looked_ns = ticks_monotonic_ns();
	size_t events = object->count;
	int err;

	if (object->state != EVENT_ARMED || object->disarmed_ns)
		return -EINVAL;
	if (!is_followed(object))
		return 0;
	err = follow(object, looked_ns, 0, detail);
	object->followed_ns = looked_ns;
	if (object->count != events)
		claims_confirm(object);
	return err;
}

void perf_object_follow_end(struct perf_object *object)
{
	if (!is_followed(object) || follow(object, ticks_monotonic_ns(), 1, (struct detail){ 0 }))
		return;
	for (size_t i = 0; i < object->place_count; i++) {
		const struct event_place *place = &object->places[i];

		if (is_lacking(place))
			uncovered_add(object, place, ticks_monotonic_ns());
	}
}

const struct event_uncovered *perf_object_uncovered(const struct perf_object *object, size_t *count)
{
	*count = object->uncovered_count;
	return object->uncovered;
}
