/* SPDX-License-Identifier: MIT */
/*
 * What of the scope is covered now. A thread that came later has its creator's events, unless the
 * program was replaced by another, which ends all threads but its first and takes the events from
 * that. The kernel says nothing of it: the registers stay accounted as long as we have the
 * descriptors. So look whether it is still the program that it was.
 */
#include "record/perf/object_own.h"

#include "base/array.h"
#include "record/perf/cpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <waymark/error.h>

/* Events that were opened together, sorted by thread or CPU. */
struct group {
	pid_t tid;
	int cpu;
	int is_there;
};

struct groups {
	struct group *all;
	unsigned int count;
	int is_replaced; /* the program */
};

static int by_place(const void *a, const void *b)
{
	const struct group *left = a, *right = b;

	if (left->tid != right->tid)
		return (left->tid > right->tid) - (left->tid < right->tid);
	return (left->cpu > right->cpu) - (left->cpu < right->cpu);
}

static int groups_read(struct groups *groups, const struct perf_object *object)
{
	const struct extent *extent = &object->extent;
	unsigned int kept = 0;

	*groups = (struct groups){ .all = calloc(extent->count + 1, sizeof(*groups->all)) };
	if (!groups->all)
		return -ENOMEM;
	for (size_t i = 0; i < extent->count; i++)
		groups->all[i] = (struct group){
			.tid = extent->opened[i].tid,
			.cpu = extent->opened[i].tid > 0 ? -1 : extent->opened[i].cpu,
		};
	qsort(groups->all, extent->count, sizeof(*groups->all), by_place);
	for (size_t i = 0; i < extent->count; i++)
		if (!kept || by_place(&groups->all[i], &groups->all[kept - 1]))
			groups->all[kept++] = groups->all[i];
	groups->count = kept;
	return 0;
}

static struct group *group_find(const struct groups *groups, pid_t tid, int cpu)
{
	struct group key = { .tid = tid, .cpu = cpu };

	return groups->count ? bsearch(&key, groups->all, groups->count, sizeof(key), by_place)
			     : NULL;
}

static int missing_add(struct event_coverage *coverage, pid_t tid, int cpu, int error)
{
	size_t room = coverage->missing_room;

	if (array_grow(&coverage->missing, &room, coverage->missing_count + 1,
		       sizeof(*coverage->missing)))
		return -ENOMEM;
	coverage->missing_room = (unsigned int)room;
	coverage->missing[coverage->missing_count++] = (struct event_missing){
		.tid = tid,
		.cpu = cpu,
		.error = error,
	};
	return 0;
}

/* A thread that is there now. */
static int thread_cover(struct event_coverage *coverage, const struct perf_object *object,
			const struct groups *groups, pid_t tid)
{
	struct group *group = group_find(groups, tid, -1);
	char state = target_thread_state(object->request.pid, tid);

	if (!state || state == 'Z' || state == 'X') /* a leader that has ended before the others */
		return 0;
	coverage->wanted++;
	if (object->state != EVENT_ARMED)
		return 0;
	if (group)
		group->is_there = 1;
	if (groups->is_replaced)
		return missing_add(coverage, tid, -1, -WM_E_EVENT_EXEC);
	if (group)
		coverage->opened++;
	else
		coverage->inherited++;
	return 0;
}

uint64_t perf_program_id(pid_t pid)
{
	uint64_t stack = target_first_stack(pid);
	struct stat file;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &file))
		return stack;
	return stack ^ (uint64_t)file.st_ino << 20 ^ (uint64_t)file.st_dev << 52;
}

static int threads_cover(struct event_coverage *coverage, const struct perf_object *object,
			 struct groups *groups)
{
	pid_t one = object->request.pid, *tids = NULL;
	uint64_t now;
	int count = 1, err = 0;

	if (object->request.scope == EVENT_PROCESS)
		count = target_threads(object->request.pid, &tids);
	else if (!target_thread_state(one, one) && target_status_number(one, "Tgid") < 0)
		count = -ESRCH;
	if (count < 0)
		err = count == -ESRCH ? -WM_E_GONE : count;
	now = perf_program_id(object->request.pid);
	groups->is_replaced = object->state == EVENT_ARMED && now && now != object->program;
	for (int i = 0; i < count && !err; i++)
		err = thread_cover(coverage, object, groups, tids ? tids[i] : one);
	free(tids);
	return err;
}

/* A CPU that is online. */
static int cpu_cover(struct event_coverage *coverage, const struct perf_object *object,
		     const struct groups *groups, int cpu)
{
	const struct place *place = extent_place(&object->extent, cpu);
	struct group *group = group_find(groups, -1, cpu);
	uint64_t enabled_ns;

	if (!place && object->request.scope != EVENT_SYSTEM)
		return 0;
	coverage->wanted++;
	if (object->state != EVENT_ARMED)
		return 0;
	if (group && place && extent_place_lives(&object->extent, cpu, &enabled_ns)) {
		coverage->opened++;
		return 0;
	}
	if (place && place->error && place->error != -ENODEV)
		return missing_add(coverage, -1, cpu, place->error);
	return missing_add(coverage, -1, cpu,
			   place ? -WM_E_EVENT_CPU_BACK : -WM_E_EVENT_CAME_LATER);
}

static int cpus_cover(struct event_coverage *coverage, const struct perf_object *object,
		      struct groups *groups)
{
	size_t count;
	unsigned int *cpus;
	int err = cpus_online(&cpus, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count && !err; i++)
		err = cpu_cover(coverage, object, groups, (int)cpus[i]);
	for (size_t i = 0; i < object->extent.place_count && !err; i++) {
		int cpu = object->extent.places[i].cpu;

		if (object->state != EVENT_ARMED || cpus_has(cpus, count, (unsigned int)cpu))
			continue;
		coverage->wanted++;
		err = missing_add(coverage, -1, cpu, -ENODEV);
	}
	free(cpus);
	return err;
}

/* Rings are of the CPUs that were there; threads on others are not seen. */
static int rings_cover(struct event_coverage *coverage, const struct perf_object *object)
{
	size_t count;
	unsigned int *cpus;
	int err;

	if (!object->rings.count || object->state != EVENT_ARMED)
		return 0;
	err = cpus_online(&cpus, &count);
	for (size_t i = 0; i < count && !err; i++) {
		const struct place *place = extent_place(&object->extent, (int)cpus[i]);
		int why = place ? place->error : 0;

		if (!rings_has(&object->rings, cpus[i]))
			err = missing_add(coverage, -1, (int)cpus[i],
					  why && why != -ENODEV ? why : -WM_E_EVENT_CAME_LATER);
	}
	free(cpus);
	return err;
}

unsigned int perf_object_starved(const struct perf_object *object, unsigned int source)
{
	unsigned int starved = 0;

	for (size_t i = 0; i < object->extent.count; i++) {
		const struct instance *instance = &object->extent.opened[i];
		struct instance_count count;

		/* one for each CPU of a thread's runs on one at a time */
		if (instance->source != source || (instance->tid > 0 && instance->cpu >= 0))
			continue;
		if (!instance_read(instance, &count))
			starved += count.third < count.enabled_ns;
	}
	return starved;
}

int perf_object_coverage(struct perf_object *object, struct event_coverage *coverage)
{
	struct groups groups;
	int err = groups_read(&groups, object);

	*coverage = (struct event_coverage){
		.was_stopped = object->was_stopped,
		.sees_kernel = (object->request.flags & EVENT_KERNEL) != 0,
	};
	if (err)
		return err;
	if (perf_object_is_threads(object))
		err = threads_cover(coverage, object, &groups);
	if (!err && perf_object_is_threads(object))
		err = rings_cover(coverage, object);
	else if (!err)
		err = cpus_cover(coverage, object, &groups);
	for (unsigned int i = 0; i < object->request.source_count; i++)
		coverage->starved += perf_object_starved(object, i);
	for (unsigned int i = 0; i < groups.count && perf_object_is_threads(object); i++)
		coverage->ended += !groups.all[i].is_there;
	free(groups.all);
	if (err)
		perf_coverage_release(coverage);
	return err;
}

void perf_coverage_release(struct event_coverage *coverage)
{
	free(coverage->missing);
	coverage->missing = NULL;
	coverage->missing_count = coverage->missing_room = 0;
}
