/* SPDX-License-Identifier: MIT */
#include "record/perf/object_own.h"

#include "base/array.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

static int request_check(const struct event_request *request)
{
	int is_threads = request->scope == EVENT_THREAD || request->scope == EVENT_PROCESS;

	if (request->scope < EVENT_THREAD || request->scope > EVENT_SYSTEM)
		return -EINVAL;
	if (!request->source_count || request->source_count > EVENT_SOURCES_MAX)
		return -EINVAL;
	if (is_threads && request->pid <= 0)
		return -EINVAL;
	if (request->scope == EVENT_CPUS && !request->cpu_count)
		return -EINVAL;
	if (!is_threads && request->flags & (EVENT_SIGNAL | EVENT_CHILDREN))
		return -EINVAL;
	if (request->flags & EVENT_SIGNAL && request->flags & EVENT_RINGS)
		return -EINVAL;
	return 0;
}

static int request_copy(struct perf_object *object, const struct event_request *request)
{
	object->request = *request;
	object->request.cpus = NULL;
	object->request.sources = object->sources;
	for (unsigned int i = 0; i < request->source_count; i++)
		perf_object_source_set(object, i, &request->sources[i]);
	if (request->scope == EVENT_CPUS) {
		size_t bytes = request->cpu_count * sizeof(*request->cpus);
		unsigned int *cpus = malloc(bytes);

		if (!cpus)
			return -ENOMEM;
		memcpy(cpus, request->cpus, bytes);
		object->request.cpus = cpus;
	}
	return 0;
}

int perf_object_new(struct perf_object **object, const struct event_request *request,
		    struct detail detail)
{
	struct perf_object *new;
	int err = request_check(request);

	*object = NULL;
	for (unsigned int i = 0; i < request->source_count && !err; i++)
		err = perf_source_check(&request->sources[i], request->flags, detail);
	if (err)
		return err;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	err = request_copy(new, request);
	if (err)
		perf_object_release(new);
	else
		*object = new;
	return err;
}

void perf_object_source_set(struct perf_object *object, unsigned int source,
			    const struct event_source *to)
{
	char *what = object->what[source];

	if (to->what && to->what != what) {
		strncpy(what, to->what, WHAT_BYTES - 1);
		what[WHAT_BYTES - 1] = '\0';
	}
	object->sources[source] = *to;
	object->sources[source].what = *what ? what : NULL;
}

struct instance_form perf_object_form(const struct perf_object *object)
{
	return (struct instance_form){
		.scope = object->request.scope,
		.flags = object->request.flags,
		.generation = object->generation,
		.is_exchanged = object->is_exchanged,
	};
}

/* One of a group, behind those that are open. */
static int open_one(struct perf_object *object, struct instance *instance, int leader_fd)
{
	struct instance_form form = perf_object_form(object);
	const struct cpu_ring *ring = NULL;
	int err;

	err = instance_open(instance, &object->sources[instance->source], &form,
			    instance->is_leader ? -1 : leader_fd);
	for (unsigned int i = 0; i < object->rings.count && !ring; i++)
		if ((int)object->rings.all[i].cpu == instance->cpu)
			ring = &object->rings.all[i];
	if (err || !ring)
		return err;
	err = instance_to_ring(instance, ring->fd);
	if (err)
		close(instance->fd);
	return err;
}

/* The sources from `first` on, in one place. */
static int open_place(struct perf_object *object, const struct instance *place, unsigned int first)
{
	size_t begin = object->count;

	for (unsigned int i = first; i < object->request.source_count; i++) {
		struct instance *instance = &object->instances[object->count];
		int err;

		*instance = *place;
		instance->source = (uint8_t)i;
		instance->is_leader = i == first || !object->is_grouped;
		instance->is_first = place->is_first && i == first;
		err = open_one(object, instance,
			       object->count > begin ? object->instances[begin].fd : -1);
		if (err)
			return err;
		object->count++;
	}
	return 0;
}

int perf_object_open_group(struct perf_object *object, pid_t tid, int cpu, unsigned int first,
			   uint8_t round, int *is_ended, struct detail detail)
{
	int is_each = tid > 0 && cpu < 0 && object->rings.count;
	unsigned int places = is_each ? object->rings.count : 1;
	size_t begin = object->count;
	int err = 0;

	*is_ended = 0;
	if (array_grow(&object->instances, &object->room,
		       begin + (size_t)places * object->request.source_count,
		       sizeof(*object->instances)))
		return -ENOMEM;
	for (unsigned int i = 0; i < places && !err; i++) {
		struct instance place = { .tid = tid, .cpu = cpu, .round = round };

		if (is_each)
			place.cpu = (int)object->rings.all[i].cpu;
		/* once for each thread */
		place.is_first = tid < 0 || !object->rings.count ||
				 place.cpu == (int)object->rings.all[0].cpu;
		err = open_place(object, &place, first);
	}
	if (!err) {
		object->groups++;
		return 0;
	}
	if (err == -ESRCH && tid > 0)
		*is_ended = 1;
	else
		err = perf_object_refused(object, &object->instances[object->count], err, detail);
	/* what it gave to threads that it started goes as well: they have none then */
	while (object->count > begin)
		close(object->instances[--object->count].fd);
	return *is_ended ? 0 : err;
}

void perf_object_close(struct perf_object *object)
{
	for (size_t i = 0; i < object->count; i++)
		close(object->instances[i].fd);
	object->count = 0;
	object->groups = 0;
	object->known_count = 0;
	object->rounds = 0;
	object->doubtful = 0;
	object->place_count = 0;
}

void perf_object_enable(const struct perf_object *object)
{
	for (size_t i = 0; i < object->count; i++)
		if (object->instances[i].is_leader)
			instance_enable(&object->instances[i]);
}

void perf_object_quiet(struct perf_object *object)
{
	if (object->state != EVENT_ARMED || object->disarmed_ns)
		return;
	perf_object_follow_end(object);
	object->disarmed_ns = ticks_monotonic_ns();
	for (size_t i = 0; i < object->count; i++)
		if (object->instances[i].is_leader)
			instance_disable(&object->instances[i]);
}

int perf_object_count(struct perf_object *object, unsigned int source, uint64_t *hits)
{
	*hits = 0;
	if (source >= object->request.source_count)
		return -EINVAL;
	*hits = object->hits[source];
	for (size_t i = 0; i < object->count; i++) {
		struct instance_count one;
		int err;

		if (object->instances[i].source != source)
			continue;
		err = instance_read(&object->instances[i], &one);
		if (err)
			return err;
		*hits += one.hits;
	}
	return 0;
}

void perf_object_disarm(struct perf_object *object)
{
	if (object->state == EVENT_ARMED) {
		perf_object_quiet(object);
		for (unsigned int i = 0; i < object->request.source_count; i++) {
			uint64_t hits;

			perf_object_count(object, i, &hits);
			object->hits[i] = hits;
		}
	}
	perf_object_close(object);
	claims_disarmed(object);
	object->state = EVENT_DISARMED;
}

static void perf_object_free(struct perf_object *object)
{
	free((void *)object->request.cpus);
	free(object->instances);
	free(object->known);
	free(object->places);
	free(object->uncovered);
	rings_release(&object->rings);
	claims_remove(object);
	free(object);
}

void perf_object_release(struct perf_object *object)
{
	if (!object)
		return;
	perf_object_disarm(object);
	perf_object_free(object);
}

/* No ioctl(2): it would reach the owner's. */
void perf_object_leave(struct perf_object *object)
{
	if (!object)
		return;
	perf_object_close(object);
	perf_object_free(object);
}

enum event_state perf_object_state(const struct perf_object *object)
{
	return object->state;
}

uint64_t perf_object_armed_ns(const struct perf_object *object)
{
	return object->armed_ns;
}

uint64_t perf_object_disarmed_ns(const struct perf_object *object)
{
	return object->disarmed_ns;
}

uint8_t perf_object_generation(const struct perf_object *object)
{
	return object->generation;
}

const struct event_source *perf_object_sources(const struct perf_object *object)
{
	return object->sources;
}
