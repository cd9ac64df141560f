/* SPDX-License-Identifier: MIT */
#include "record/perf/extent.h"

#include "base/array.h"
#include "record/perf/cpus.h"
#include "record/perf/descriptors.h"
#include "record/perf/object_own.h"
#include "record/perf/refused.h"
#include "target/process/stop_threads.h"
#include "target/process/target.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define CLONE_NS 5000000 /* longer than a thread is in clone(2), its wait for a CPU included */

/* ---- events ---- */

int extent_reserve(struct extent *extent, size_t more)
{
	return array_grow(&extent->opened, &extent->room, extent->count + more,
			  sizeof(*extent->opened));
}

void extent_add(struct extent *extent, int fd, unsigned int event, int cpu, int is_leader)
{
	extent->opened[extent->count++] = (struct opened){ fd, event, cpu, is_leader };
}

static void close_from(struct extent *extent, size_t first)
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
		close_from(extent, first);
	return err;
}

static void order_from(const struct extent *extent, size_t first, unsigned long order)
{
	for (size_t i = first; i < extent->count; i++)
		if (extent->opened[i].is_leader)
			ioctl(extent->opened[i].fd, order, 0);
}

int extent_read(const struct opened *opened, struct extent_value *value)
{
	ssize_t bytes = read(opened->fd, value, sizeof(*value));

	if (bytes == sizeof(*value))
		return 0;
	*value = (struct extent_value){ 0 };
	return bytes < 0 ? -errno
			 : 0; /* nothing to read: its group was torn, and it counted nothing */
}

int extent_refused(const struct extent *extent, const struct count_event *event, int has_kernel,
		   pid_t tid, int cpu, int error, struct detail detail)
{
	struct target target;
	char whose[64];
	int err;

	if (tid < 0)
		snprintf(whose, sizeof(whose), "CPU %d", cpu);
	else
		snprintf(whose, sizeof(whose), "thread %d", (int)tid);
	switch (-error) {
	case EMFILE:
		return detail_set(detail, -WM_E_NO_DESCRIPTORS,
				  "%zu are open; RLIMIT_NOFILE is reached", extent->count);
	case ENOSYS:
		return detail_set(detail, -ENOSYS, PERF_IS_MISSING);
	case EACCES:
	case EPERM:
		err = perf_object_forbidden(tid >= 0, has_kernel, detail);
		if (err)
			return err;
		if (error == -EPERM && target_status_number(getpid(), "Seccomp") > 0)
			return detail_set(detail, -WM_E_PERF_DENIED, PERF_IS_FILTERED);
		if (tid >= 0 && !target_read(&target, tid))
			return target_denied(&target, detail);
		return detail_set(detail, -EPERM, "%s of %s", event->name, whose);
	case EBADF:
		return detail_set(
			detail, -EINVAL,
			"the folder is no cgroup of version 2, or of version 1's perf_event");
	case ENODEV:
		if (tid < 0)
			return detail_set(detail, error, "CPU %d is not online", cpu);
		/* falls through */
	case ENOENT:
		if (extent->cgroup_fd >= 0 && faccessat(extent->cgroup_fd, "cgroup.procs", F_OK, 0))
			return detail_set(detail, error, "the cgroup was removed");
		/* falls through */
	case EOPNOTSUPP:
	case EINVAL:
		return detail_set(detail, -WM_E_COUNT_UNIT, "%s", event->name);
	default:
		return detail_set(detail, error, "%s of %s", event->name, whose);
	}
}

/* ---- threads ---- */

static int open_thread(struct extent *extent, pid_t tid, struct detail detail)
{
	int err = open_all(extent, tid, -1, detail);

	extent->thread_count += !err;
	return err == -ESRCH ? 0 : err;
}

static int are_threads_still(pid_t pid, const pid_t *tids, int count)
{
	pid_t *now;
	int still = target_threads(pid, &now) == count &&
		    !memcmp(tids, now, (size_t)count * sizeof(*tids)) &&
		    target_threads_are(pid, tids, count);

	free(now);
	return still;
}

/* Whether one may be inside clone(2): then the new thread is not listed yet. */
static int may_clone(pid_t pid, const pid_t *tids, int count)
{
	for (int i = 0; i < count; i++) {
		char state = target_thread_state(pid, tids[i]);

		if (state == 'R' || state == 'D')
			return 1;
	}
	return 0;
}

/*
 * Open all threads of a process. *has_changed is set if there are others then: one may have started
 * from a thread without events, and been missed; or it inherited them, and was opened as well.
 */
static int open_process(struct extent *extent, pid_t pid, int *has_changed, struct detail detail)
{
	const struct timespec poll_wait = { .tv_nsec = CLONE_NS };
	pid_t *tids;
	int count = target_threads(pid, &tids), err = count < 0 ? count : 0;

	for (int i = 0; i < count && !err; i++)
		err = open_thread(extent, tids[i], detail);
	if (!err && !are_threads_still(pid, tids, count))
		*has_changed = 1;
	if (!err && !*has_changed && may_clone(pid, tids, count)) {
		nanosleep(&poll_wait, NULL);
		*has_changed = !are_threads_still(pid, tids, count);
	}
	free(tids);
	if (err == -ESRCH)
		return detail_set(detail, -WM_E_GONE, "process %d", (int)pid);
	return err;
}

/* They stay stopped until all of them are enabled. */
static int stop_all(struct extent *extent)
{
	extent->stops = calloc(extent->id_count, sizeof(struct stop *));
	if (!extent->stops)
		return -ENOMEM;
	for (size_t i = 0; i < extent->id_count; i++) {
		int err = stop_threads(extent->ids[i], 0, &extent->stops[i]);

		/* a stopped process starts no threads */
		extent->is_doubtful |= err && err != -WM_E_STOPPED && err != -ESRCH;
	}
	return 0;
}

static int open_each(struct extent *extent, int *has_changed, struct detail detail)
{
	int err = extent_need(extent, 0, detail);

	for (size_t i = 0; i < extent->id_count && !err; i++)
		err = open_process(extent, extent->ids[i], has_changed, detail);
	return err;
}

static int open_processes(struct extent *extent, struct detail detail)
{
	unsigned int before = extent->thread_count;
	size_t first = extent->count;
	int has_changed = 0, err = open_each(extent, &has_changed, detail);

	/* a process is stopped only if it starts and ends threads meanwhile */
	if (!err && has_changed) {
		close_from(extent, first);
		extent->thread_count = before;
		err = stop_all(extent);
		if (!err)
			err = open_each(extent, &has_changed, detail);
	}
	if (!err && extent->thread_count == before)
		err = detail_set(detail, -WM_E_GONE, "process %d", (int)extent->ids[0]);
	return err;
}

static void resume(struct extent *extent)
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

static struct place *place_of(struct extent *extent, int cpu)
{
	for (size_t i = 0; i < extent->place_count; i++)
		if (extent->places[i].cpu == cpu)
			return &extent->places[i];
	return NULL;
}

/* Its events, at first or again. */
static int open_cpu(struct extent *extent, unsigned int cpu, struct detail detail)
{
	struct place *place = place_of(extent, (int)cpu);
	int err;

	if (!place && array_grow(&extent->places, &extent->place_room, extent->place_count + 1,
				 sizeof(*extent->places)))
		return -ENOMEM;
	err = open_all(extent, -1, (int)cpu, detail);
	if (err)
		return err;
	if (!place)
		place = &extent->places[extent->place_count++];
	*place = (struct place){ .cpu = (int)cpu, .is_online = 1 };
	return 0;
}

static int is_among(const unsigned int *cpus, size_t count, int cpu)
{
	for (size_t i = 0; i < count; i++)
		if (cpus[i] == (unsigned int)cpu)
			return 1;
	return 0;
}

int extent_cpus(const struct extent *extent, unsigned int **cpus, size_t *count,
		struct detail detail)
{
	int err = cpus_online(cpus, count);
	size_t kept = 0;

	for (size_t i = 0; i < extent->cpu_count && extent->cpus && !err; i++)
		if (!is_among(*cpus, *count, (int)extent->cpus[i]))
			err = detail_set(detail, -ENODEV, "CPU %u is not online", extent->cpus[i]);
	for (size_t i = 0; i < *count && extent->cpus && !err; i++)
		if (is_among(extent->cpus, extent->cpu_count, (int)(*cpus)[i]))
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
	for (size_t i = 0; i < count && !err; i++)
		if (!place_of(extent, (int)cpus[i]))
			err = open_cpu(extent, cpus[i], detail);
	free(cpus);
	return err;
}

static void close_cpu(struct extent *extent, int cpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < extent->count; i++) {
		const struct opened opened = extent->opened[i];

		if (opened.cpu != cpu) {
			extent->opened[kept++] = opened;
			continue;
		}
		extent->way->leave(extent, &opened);
		close(opened.fd);
	}
	extent->count = kept;
}

/*
 * Whether its events do not count any more. When a CPU goes offline, also for a moment as the
 * machine is suspended, the kernel takes its events out of their context permanently, and
 * PERF_EVENT_IOC_ENABLE changes nothing (cpu_follow.c). Their time then stops. A cgroup's time
 * also stops whenever nothing of it runs.
 */
static int is_dead(const struct extent *extent, struct place *place)
{
	struct extent_value value;
	int is_same;

	if (!place->is_online)
		return 1;
	if (extent->cgroup_fd >= 0 || !extent->is_enabled)
		return 0;
	for (size_t i = 0; i < extent->count; i++) {
		if (extent->opened[i].cpu != place->cpu)
			continue;
		if (extent_read(&extent->opened[i], &value))
			return 0;
		is_same = value.enabled_ns == place->enabled_ns;
		place->enabled_ns = value.enabled_ns;
		return is_same;
	}
	return 1;
}

int extent_follow(struct extent *extent)
{
	char words[64];
	struct detail detail = { words, sizeof(words) };
	unsigned int *online;
	size_t count;
	int err;

	if (extent->ids)
		return 0;
	err = cpus_online(&online, &count);
	for (size_t i = 0; i < extent->place_count && !err; i++)
		extent->places[i].is_online &= is_among(online, count, extent->places[i].cpu);
	for (size_t i = 0; i < count && !err; i++) {
		struct place *place = place_of(extent, (int)online[i]);
		size_t first;

		if (place ? !is_dead(extent, place) : extent->cpus != NULL)
			continue;
		close_cpu(extent, (int)online[i]);
		first = extent->count;
		if (open_cpu(extent, online[i], detail)) {
			if (place)
				place->is_online = 0; /* the next look tries again */
			continue;
		}
		if (extent->is_enabled)
			order_from(extent, first, PERF_EVENT_IOC_ENABLE);
		extent->cpus_back++;
	}
	free(online);
	return err;
}

/* ---- all ---- */

/* All that there are, before any is opened. */
int extent_need(const struct extent *extent, size_t more, struct detail detail)
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
	return descriptors_need(more + all * extent->needs, detail);
}

int extent_open(struct extent *extent, struct detail detail)
{
	if (!extent->ids)
		return open_cpus(extent, detail);
	return extent->are_threads ? open_threads(extent, detail) : open_processes(extent, detail);
}

void extent_enable(struct extent *extent)
{
	extent->is_enabled = 1;
	order_from(extent, extent->joined_from, PERF_EVENT_IOC_ENABLE);
	resume(extent);
}

void extent_part(struct extent *extent)
{
	close_from(extent, extent->joined_from);
	resume(extent);
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
	order_from(extent, 0, PERF_EVENT_IOC_DISABLE);
}

void extent_close(struct extent *extent)
{
	resume(extent);
	close_from(extent, 0);
	free(extent->opened);
	free(extent->places);
}
