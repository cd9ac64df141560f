/* SPDX-License-Identifier: MIT */
#include "record/perf/extent.h"

#include "base/array.h"
#include "record/perf/cpus.h"
#include "record/perf/instance.h"
#include "record/perf/refused.h"
#include "target/process/stop_threads.h"
#include "target/process/target.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define CLONE_NS 5000000	       /* between two looks at threads that may be in clone(2) */
#define CLONE_RAN_NS UINT64_C(1000000) /* longer than that takes of a CPU */
#define CLONE_LOOKS 60		       /* then the process is stopped, if it can be */
/* To open all threads of processes that can't be stopped; each try waits longer than the last. */
#define TRIES_MAX 80
#define TRIES_LATE_MAX 8 /* others are stopped meanwhile, and it may be doubtful */
#define TRY_NS 1000000

/* Where the scheduler's clock is as coarse as the tick, no time may seem to pass. */
#define TICKS_NS 12000000

/* ---- events ---- */

int extent_reserve(struct extent *extent, size_t more)
{
	return array_grow(&extent->opened, &extent->room, extent->count + more,
			  sizeof(*extent->opened));
}

void extent_add(struct extent *extent, const struct instance *instance)
{
	extent->opened[extent->count++] = *instance;
}

void extent_close_from(struct extent *extent, size_t first)
{
	while (extent->count > first)
		close(extent->opened[--extent->count].fd);
}

/* All events of a thread or a CPU, or none. */
static int open_all(struct extent *extent, pid_t tid, int cpu, struct detail detail)
{
	size_t first = extent->count;
	int err = extent->way->open(extent, tid, cpu, detail);

	if (err)
		extent_close_from(extent, first);
	return err;
}

static void enable_from(const struct extent *extent, size_t first)
{
	for (size_t i = first; i < extent->count; i++)
		if (extent->opened[i].is_leader)
			instance_enable(&extent->opened[i]);
}

int extent_refused(const struct extent *extent, const struct count_event *event, int has_kernel,
		   pid_t tid, int cpu, int error, struct detail detail)
{
	const struct instance instance = { .tid = tid, .cpu = cpu };

	if (error == -EBADF)
		return detail_set(
			detail, -EINVAL,
			"the folder is no cgroup of version 2, or of version 1's perf_event");
	if ((error == -ENOENT || (error == -ENODEV && tid >= 0)) && extent->cgroup_fd >= 0 &&
	    faccessat(extent->cgroup_fd, "cgroup.procs", F_OK, 0))
		return detail_set(detail, error, "the cgroup was removed");
	if (error == -ENOENT || error == -EOPNOTSUPP || error == -EINVAL ||
	    (error == -ENODEV && tid >= 0))
		return detail_set(detail, -WM_E_COUNT_UNIT, "%s", event->name);
	return perf_refused(&instance, event->name, has_kernel, extent->count, error, detail);
}

/* ---- threads ---- */

static int open_thread(struct extent *extent, pid_t tid, struct detail detail)
{
	int err = open_all(extent, tid, -1, detail);

	extent->thread_count += !err;
	return err == -ESRCH ? 0 : err;
}

int extent_threads_are(pid_t pid, const pid_t *tids, int count)
{
	pid_t *now;
	int still = target_threads(pid, &now) == count && count >= 0 &&
		    !memcmp(tids, now, (size_t)count * sizeof(*tids)) &&
		    target_threads_are(pid, tids, count);

	free(now);
	return still;
}

/*
 * Whether a thread may be inside clone(2) that was there at the last look: then the new thread is
 * not listed yet. One that runs, or waits for a CPU, is past it when it has run for long enough;
 * ran_ns[]: how long each had run, UINT64_MAX: it was elsewhere, or the kernel counts no times.
 * is_first: fill that in. Of one that sleeps in the kernel, or has no times, no event says more.
 */
static int may_clone(pid_t pid, const pid_t *tids, int count, uint64_t *ran_ns, int is_first)
{
	int may = 0;

	for (int i = 0; i < count; i++) {
		char state = target_thread_state(pid, tids[i]);
		struct target_times times = { 0 };
		int is_ready = state == 'R' && tids[i] != gettid();
		/* 0: it never ran, or delay accounting is off */
		int is_timed = is_ready && !target_thread_times(pid, tids[i], &times) &&
			       times.ran_ns;

		if (is_first)
			ran_ns[i] = is_timed ? times.ran_ns : UINT64_MAX;
		may |= is_first ? is_ready || state == 'D'
				: is_timed && ran_ns[i] != UINT64_MAX &&
					  times.ran_ns < ran_ns[i] + CLONE_RAN_NS;
	}
	return may;
}

/*
 * The same list, and no thread may be about to add to it. A thread that gets no CPU may be for
 * long: then the process is stopped, and where it can't be, the same list is enough.
 */
static int are_all(const struct extent *extent, pid_t pid, const pid_t *tids, int count)
{
	uint64_t *ran_ns = calloc((size_t)count + 1, sizeof(*ran_ns));
	int can_stop = extent->stop != EXTENT_STOP_NEVER && !extent->stops;
	int are = ran_ns && extent_threads_are(pid, tids, count), may = 1;

	if (are && may_clone(pid, tids, count, ran_ns, 1)) {
		for (int i = 0; i < CLONE_LOOKS && may; i++) {
			nanosleep(&(struct timespec){ .tv_nsec = CLONE_NS }, NULL);
			may = may_clone(pid, tids, count, ran_ns, 0);
		}
		are = !(may && can_stop) && extent_threads_are(pid, tids, count);
	}
	free(ran_ns);
	return are;
}

/*
 * Open all threads of a process. *has_changed is set if there are others then: one may have started
 * from a thread without events, and been missed; or it inherited them, or some, and lacks the rest.
 */
static int open_process(struct extent *extent, pid_t pid, int is_stopped, int *has_changed,
			struct detail detail)
{
	pid_t *tids;
	int count = target_threads(pid, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++)
		err = open_thread(extent, tids[i], detail);
	if (!err && !is_stopped)
		*has_changed |= !are_all(extent, pid, tids, count);
	free(tids);
	if (err == -ESRCH)
		return detail_set(detail, -WM_E_GONE, "process %d", (int)pid);
	return err;
}

int extent_stop(struct extent *extent)
{
	int err = 0;

	if (!extent->ids || extent->are_threads || extent->stop == EXTENT_STOP_NEVER)
		return 0;
	extent->stops = calloc(extent->id_count, sizeof(struct stop *));
	if (!extent->stops)
		return -ENOMEM;
	for (size_t i = 0; i < extent->id_count && err != -ENOMEM && err != -EAGAIN; i++)
		err = stop_threads(extent->ids[i], 0, &extent->stops[i]);
	return err == -ENOMEM || err == -EAGAIN ? err : 0;
}

int extent_is_stopped(const struct extent *extent)
{
	return extent->stops && extent->stops[0];
}

static int open_each(struct extent *extent, int *has_changed, struct detail detail)
{
	int err = 0;

	*has_changed = 0;
	for (size_t i = 0; i < extent->id_count && !err; i++)
		err = open_process(extent, extent->ids[i], extent->stops && extent->stops[i],
				   has_changed, detail);
	return err;
}

static int open_processes(struct extent *extent, struct detail detail)
{
	unsigned int before = extent->thread_count;
	size_t first = extent->count;
	int tries = extent->stop == EXTENT_STOP_LATE ? TRIES_LATE_MAX : TRIES_MAX;
	int has_changed = 0, err = extent_need(extent, 0, detail);

	if (!err && extent->stop == EXTENT_STOP_FIRST)
		err = extent_stop(extent);
	if (!err)
		err = open_each(extent, &has_changed, detail);
	for (int i = 0; i < tries && has_changed && !err; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = i * TRY_NS }, NULL);
		extent_close_from(extent, first);
		extent->thread_count = before;
		if (!extent->stops)
			err = extent_stop(extent);
		if (!err)
			err = open_each(extent, &has_changed, detail);
	}
	extent->is_doubtful |= has_changed;
	if (!err && extent->thread_count == before)
		err = detail_set(detail, -WM_E_GONE, "process %d", (int)extent->ids[0]);
	return err;
}

void extent_resume(struct extent *extent)
{
	for (size_t i = 0; extent->stops && i < extent->id_count; i++)
		stop_resume(extent->stops[i]);
	free(extent->stops);
	extent->stops = NULL;
}

static int open_threads(struct extent *extent, struct detail detail)
{
	int err = extent_need(extent, 0, detail);

	for (size_t i = 0; i < extent->id_count && !err; i++) {
		unsigned int before = extent->thread_count;

		err = open_thread(extent, extent->ids[i], detail);
		if (!err && extent->thread_count == before)
			err = detail_set(detail, -WM_E_GONE, "thread %d", (int)extent->ids[i]);
	}
	return err;
}

/* ---- CPUs ---- */

struct place *extent_place(const struct extent *extent, int cpu)
{
	for (size_t i = 0; i < extent->place_count; i++)
		if (extent->places[i].cpu == cpu)
			return &extent->places[i];
	return NULL;
}

static struct place *place_add(struct extent *extent, int cpu)
{
	struct place *place;

	if (array_grow(&extent->places, &extent->place_room, extent->place_count + 1,
		       sizeof(*extent->places)))
		return NULL;
	place = &extent->places[extent->place_count++];
	*place = (struct place){ .cpu = cpu, .known_ns = extent->followed_ns };
	return place;
}

/* Of the CPU's first event; the others come and go with it. -ENOENT: it has none. */
static int place_read(const struct extent *extent, int cpu, uint64_t *enabled_ns)
{
	struct instance_count count = { 0 };
	int err = -ENOENT;

	for (size_t i = 0; i < extent->count && err == -ENOENT; i++)
		if (extent->opened[i].tid < 0 && extent->opened[i].cpu == cpu)
			err = instance_read(&extent->opened[i], &count);
	*enabled_ns = count.enabled_ns;
	return err;
}

/*
 * What the kernel does, as its source has it and as it was seen on Linux 6.1 (hotplug_test.c):
 *
 * - When a CPU goes offline (each but the first does at a suspend), the kernel removes the
 *   CPU's own events from their context permanently, and notifies no one:
 *   perf_event_exit_cpu_context() -> __perf_event_exit_context() -> list_del_event() in
 *   kernel/events/core.c. The descriptor stays and can be read: the count and both times as they
 *   were. When the CPU is back nothing fires, and PERF_EVENT_IOC_ENABLE and MODIFY_ATTRIBUTES
 *   return 0 and change nothing. So we recognise such an event by its time, which does not advance,
 *   and open a new one.
 * - A breakpoint's register stays accounted to the CPU until the descriptor is closed
 *   (hw_breakpoint.c: release_bp_slot() is the event's destructor). So the old one is read and
 *   closed before the new one is opened.
 * - perf_event_open(2) of an offline CPU's is -ENODEV. But an event of a thread on a CPU belongs to
 *   the thread: it may be opened while the CPU is offline, outlives that, and fires when the thread
 *   runs there again. So has the event that a ring belongs to. These need nothing.
 */
int extent_place_lives(const struct extent *extent, int cpu, uint64_t *enabled_ns)
{
	uint64_t first;

	if (place_read(extent, cpu, &first))
		return 0;
	for (int i = 0; i < 2; i++) {
		if (place_read(extent, cpu, enabled_ns))
			return 0;
		if (*enabled_ns != first)
			return 1;
		nanosleep(&(struct timespec){ .tv_nsec = i ? 0 : TICKS_NS }, NULL);
	}
	return 0;
}

int extent_cpus(const struct extent *extent, unsigned int **cpus, size_t *count,
		struct detail detail)
{
	int err = cpus_online(cpus, count);
	size_t kept = 0;

	for (size_t i = 0; i < extent->cpu_count && extent->cpus && !err; i++)
		if (!cpus_has(*cpus, *count, extent->cpus[i]))
			err = detail_set(detail, -ENODEV, "CPU %u is not online", extent->cpus[i]);
	for (size_t i = 0; i < *count && extent->cpus && !err; i++)
		if (cpus_has(extent->cpus, extent->cpu_count, (*cpus)[i]))
			(*cpus)[kept++] = (*cpus)[i];
	*count = extent->cpus && !err ? kept : *count;
	if (err) {
		free(*cpus);
		*cpus = NULL;
	}
	return err;
}

static int open_cpus(struct extent *extent, struct detail detail)
{
	unsigned int *cpus;
	size_t count;
	int err = extent_cpus(extent, &cpus, &count, detail);

	if (err)
		return err;
	err = extent_need(extent, 0, detail);
	for (size_t i = 0; i < count && !err; i++) {
		struct place *place;

		if (extent_place(extent, (int)cpus[i]))
			continue;
		err = open_all(extent, -1, (int)cpus[i], detail);
		if (err == -ENODEV && !extent->cpus && extent->count)
			err = 0; /* it has gone since */
		else if (!err && !(place = place_add(extent, (int)cpus[i])))
			err = -ENOMEM;
		else if (!err)
			place->is_covered = 1;
	}
	free(cpus);
	return err;
}

static void close_cpu(struct extent *extent, int cpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < extent->count; i++) {
		const struct instance instance = extent->opened[i];

		if (instance.tid >= 0 || instance.cpu != cpu) {
			extent->opened[kept++] = instance;
			continue;
		}
		if (extent->way->leave)
			extent->way->leave(extent, &instance);
		close(instance.fd);
	}
	extent->count = kept;
}

/* Whether it has its events, which is noted. It is online. A cgroup's time often stops. */
static int place_look(const struct extent *extent, struct place *place)
{
	uint64_t enabled_ns = 0, now = ticks_monotonic_ns();

	if (!place->is_covered)
		return 0;
	/* some events are of other CPUs alone */
	if (extent->cgroup_fd >= 0 || !extent->is_enabled ||
	    place_read(extent, place->cpu, &enabled_ns) == -ENOENT)
		return 1;
	if (extent_place_lives(extent, place->cpu, &enabled_ns)) {
		place->known_ns = now;
		place->enabled_ns = enabled_ns;
		return 1;
	}
	/* until when it had been there */
	if (enabled_ns > place->enabled_ns &&
	    place->known_ns + (enabled_ns - place->enabled_ns) < now)
		place->known_ns += enabled_ns - place->enabled_ns;
	place->is_covered = 0;
	place->error = 0;
	return 0;
}

static int uncovered_add(struct extent *extent, const struct place *place, uint64_t last_ns)
{
	uint64_t begun_ns = extent->begun_ns;

	if (array_grow(&extent->uncovered, &extent->uncovered_room, extent->uncovered_count + 1,
		       sizeof(*extent->uncovered)))
		return -ENOMEM;
	extent->uncovered[extent->uncovered_count++] = (struct event_uncovered){
		.cpu = place->cpu,
		.first_ns = place->known_ns > begun_ns ? place->known_ns : begun_ns,
		.last_ns = last_ns,
	};
	return 0;
}

static int reopen_cpu(struct extent *extent, int cpu, uint64_t *open_ns, struct detail detail)
{
	size_t first;
	int err;

	close_cpu(extent, cpu);
	first = extent->count;
	err = open_all(extent, -1, cpu, detail);
	if (!err && extent->is_enabled)
		enable_from(extent, first);
	*open_ns = ticks_monotonic_ns();
	return err;
}

/* One that is online. At the end it is given nothing. */
static int follow_cpu(struct extent *extent, unsigned int cpu, int is_end, struct detail detail)
{
	struct place *place = extent_place(extent, (int)cpu);
	uint64_t open_ns = 0;
	int err;

	if (extent->ids ? !extent->way->lacks(extent, cpu) : !place && extent->cpus)
		return 0;
	if (!place)
		place = place_add(extent, (int)cpu);
	if (!place)
		return -ENOMEM;
	if (place->error == -ENODEV)
		place->error = 0;
	if ((!extent->ids && place_look(extent, place)) || is_end)
		return 0;
	place->error = extent->ids ? extent->way->late(extent, cpu, &open_ns, detail)
				   : reopen_cpu(extent, (int)cpu, &open_ns, detail);
	if (place->error)
		return place->error == -ENOMEM ? -ENOMEM : 0;
	err = uncovered_add(extent, place, open_ns);
	place->is_covered = 1;
	place->known_ns = open_ns;
	place_read(extent, place->cpu, &place->enabled_ns);
	extent->cpus_back++;
	return err;
}

static int follow_all(struct extent *extent, int is_end, struct detail detail)
{
	uint64_t looked_ns = ticks_monotonic_ns();
	unsigned int *online;
	size_t count;
	int err;

	if (extent->ids && !extent->way->late)
		return 0;
	err = cpus_online(&online, &count);
	for (size_t i = 0; i < count && !err; i++)
		err = follow_cpu(extent, online[i], is_end, detail);
	for (size_t i = 0; i < extent->place_count && !err; i++) {
		struct place *place = &extent->places[i];

		/* what threads have on a CPU outlives that */
		if (cpus_has(online, count, (unsigned int)place->cpu) ||
		    (extent->ids && place->is_covered))
			continue;
		place->is_covered = 0;
		place->error = -ENODEV;
		place->known_ns = looked_ns; /* nothing ran there until then */
	}
	free(online);
	extent->followed_ns = looked_ns;
	return err;
}

int extent_follow(struct extent *extent, struct detail detail)
{
	return follow_all(extent, 0, detail);
}

static int is_lacking(const struct place *place)
{
	return !place->is_covered && place->error != -ENODEV;
}

int extent_is_lacking(const struct extent *extent)
{
	for (size_t i = 0; i < extent->place_count; i++)
		if (is_lacking(&extent->places[i]))
			return 1;
	return 0;
}

void extent_follow_end(struct extent *extent)
{
	if (follow_all(extent, 1, (struct detail){ 0 }))
		return;
	for (size_t i = 0; i < extent->place_count; i++)
		if (is_lacking(&extent->places[i]))
			uncovered_add(extent, &extent->places[i], ticks_monotonic_ns());
}

/* ---- all ---- */

size_t extent_wanted(const struct extent *extent)
{
	size_t all = 0;
	unsigned int *cpus;
	pid_t *threads;
	int count;

	if (extent->are_threads) {
		all = extent->id_count;
	} else if (extent->cpus) {
		all = extent->cpu_count;
	} else if (!extent->ids) {
		if (!cpus_online(&cpus, &all))
			free(cpus);
	}
	for (size_t i = 0; !extent->are_threads && extent->ids && i < extent->id_count; i++) {
		count = target_threads(extent->ids[i], &threads);
		all += count > 0 ? (size_t)count : 0;
		free(threads);
	}
	return all * extent->needs;
}

int extent_need(const struct extent *extent, size_t more, struct detail detail)
{
	return perf_descriptors_need(more + extent_wanted(extent), detail);
}

int extent_open(struct extent *extent, struct detail detail)
{
	extent->followed_ns = ticks_monotonic_ns();
	if (!extent->ids)
		return open_cpus(extent, detail);
	return extent->are_threads ? open_threads(extent, detail) : open_processes(extent, detail);
}

void extent_enable(struct extent *extent)
{
	extent->is_enabled = 1;
	enable_from(extent, extent->joined_from);
	extent->begun_ns = ticks_monotonic_ns();
	for (size_t i = 0; i < extent->place_count; i++) {
		struct place *place = &extent->places[i];

		place->known_ns = extent->begun_ns;
		place_read(extent, place->cpu, &place->enabled_ns);
	}
}

void extent_part(struct extent *extent)
{
	extent_close_from(extent, extent->joined_from);
	extent_resume(extent);
}

int extent_join(struct extent *extent, const pid_t *pid, struct detail detail)
{
	unsigned int before = extent->thread_count;
	int err;

	extent->ids = pid;
	extent->id_count = 1;
	extent->joined_from = extent->count;
	err = open_processes(extent, detail);
	if (err) {
		extent_part(extent);
		extent->thread_count = before;
	}
	return err;
}

void extent_disable(struct extent *extent)
{
	extent->is_enabled = 0;
	for (size_t i = 0; i < extent->count; i++)
		if (extent->opened[i].is_leader)
			instance_disable(&extent->opened[i]);
}

void extent_close(struct extent *extent)
{
	extent_resume(extent);
	extent_close_from(extent, 0);
	extent->place_count = 0;
	extent->thread_count = 0;
	extent->is_doubtful = extent->is_enabled = 0;
}

void extent_release(struct extent *extent)
{
	extent_close(extent);
	free(extent->opened);
	free(extent->places);
	free(extent->uncovered);
	extent->opened = NULL;
	extent->places = NULL;
	extent->uncovered = NULL;
}
