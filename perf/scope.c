/* SPDX-License-Identifier: MIT */
#include "perf/scope.h"

#include "base/array.h"
#include "perf/cpus.h"
#include "perf/object_own.h"
#include "perf/refused.h"
#include "process/stop_threads.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <waymark/error.h>

/* ---- events ---- */

int scope_reserve(struct scope *scope, size_t more)
{
	return array_grow(&scope->opened, &scope->room, scope->count + more,
			  sizeof(*scope->opened));
}

void scope_add(struct scope *scope, int fd, unsigned int event, int cpu, int is_leader)
{
	scope->opened[scope->count++] = (struct opened){ fd, event, cpu, is_leader };
}

static void close_from(struct scope *scope, size_t first)
{
	while (scope->count > first)
		close(scope->opened[--scope->count].fd);
}

/* All events of a thread or a CPU, or none. */
static int open_all(struct scope *scope, pid_t tid, int cpu, struct detail detail)
{
	size_t first = scope->count;
	int err = scope->way->open(scope, tid, cpu, detail);

	if (err)
		close_from(scope, first);
	return err;
}

static void order_from(const struct scope *scope, size_t first, unsigned long order)
{
	for (size_t i = first; i < scope->count; i++)
		if (scope->opened[i].is_leader)
			ioctl(scope->opened[i].fd, order, 0);
}

int scope_read(const struct opened *opened, struct scope_value *value)
{
	ssize_t bytes = read(opened->fd, value, sizeof(*value));

	if (bytes == sizeof(*value))
		return 0;
	*value = (struct scope_value){ 0 };
	return bytes < 0 ? -errno
			 : 0; /* nothing to read: its group was torn, and it counted nothing */
}

int scope_refused(const struct scope *scope, const struct count_event *event, int has_kernel,
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
				  "%zu are open; RLIMIT_NOFILE is reached", scope->count);
	case ENOSYS:
		return detail_set(detail, -ENOSYS, PERF_IS_MISSING);
	case EACCES:
	case EPERM:
		err = object_forbidden(tid >= 0, has_kernel, detail);
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
	case EOPNOTSUPP:
	case EINVAL:
		return detail_set(detail, -WM_E_COUNT_UNIT, "%s", event->name);
	default:
		return detail_set(detail, error, "%s of %s", event->name, whose);
	}
}

/* ---- threads ---- */

static int open_thread(struct scope *scope, pid_t tid, struct detail detail)
{
	int err = open_all(scope, tid, -1, detail);

	scope->thread_count += !err;
	return err == -ESRCH ? 0 : err;
}

static int threads_read(pid_t pid, pid_t **threads, size_t *count)
{
	char path[32];
	struct dirent *entry;
	size_t room = 0;
	DIR *dir;
	int err = 0;

	*threads = NULL;
	*count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -WM_E_GONE : -errno;
	while (!err && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		err = array_grow(threads, &room, *count + 1, sizeof(**threads)) ? -ENOMEM : 0;
		if (!err)
			(*threads)[(*count)++] = (pid_t)strtol(entry->d_name, NULL, 10);
	}
	closedir(dir);
	return err;
}

/*
 * Open all threads of a process. *has_changed is set if another listing has other threads: then one
 * may have started from a thread without events, and been missed; or it inherited them, and was
 * opened as well.
 */
static int open_process(struct scope *scope, pid_t pid, int *has_changed, struct detail detail)
{
	pid_t *threads, *again = NULL;
	size_t count, count_again = 0;
	int err = threads_read(pid, &threads, &count);

	for (size_t i = 0; i < count && !err; i++)
		err = open_thread(scope, threads[i], detail);
	if (!err)
		err = threads_read(pid, &again, &count_again);
	*has_changed |= count != count_again ||
			(count && memcmp(threads, again, count * sizeof(*threads)) != 0);
	free(threads);
	free(again);
	if (err == -WM_E_GONE)
		return detail_set(detail, err, "process %d", (int)pid);
	return err;
}

/* They stay stopped until all of them are enabled. */
static int stop_all(struct scope *scope)
{
	scope->stops = calloc(scope->id_count, sizeof(struct stop *));
	if (!scope->stops)
		return -ENOMEM;
	for (size_t i = 0; i < scope->id_count; i++) {
		int err = stop_threads(scope->ids[i], 0, &scope->stops[i]);

		/* a stopped process starts no threads */
		scope->is_doubtful |= err && err != -WM_E_STOPPED && err != -ESRCH;
	}
	return 0;
}

static int open_each(struct scope *scope, int *has_changed, struct detail detail)
{
	int err = scope_need(scope, 0, detail);

	for (size_t i = 0; i < scope->id_count && !err; i++)
		err = open_process(scope, scope->ids[i], has_changed, detail);
	return err;
}

static int open_processes(struct scope *scope, struct detail detail)
{
	int has_changed = 0, err = open_each(scope, &has_changed, detail);

	/* a process is stopped only if it starts and ends threads meanwhile */
	if (!err && has_changed) {
		close_from(scope, 0);
		scope->thread_count = 0;
		err = stop_all(scope);
		if (!err)
			err = open_each(scope, &has_changed, detail);
	}
	if (!err && !scope->thread_count)
		err = detail_set(detail, -WM_E_GONE, "process %d", (int)scope->ids[0]);
	return err;
}

static void resume(struct scope *scope)
{
	for (size_t i = 0; scope->stops && i < scope->id_count; i++)
		stop_resume(scope->stops[i]);
	free(scope->stops);
	scope->stops = NULL;
}

static int open_threads(struct scope *scope, struct detail detail)
{
	int err = scope_need(scope, 0, detail);

	for (size_t i = 0; i < scope->id_count && !err; i++) {
		unsigned int before = scope->thread_count;

		err = open_thread(scope, scope->ids[i], detail);
		if (!err && scope->thread_count == before)
			err = detail_set(detail, -WM_E_GONE, "thread %d", (int)scope->ids[i]);
	}
	return err;
}

/* ---- CPUs ---- */

static struct place *place_of(struct scope *scope, int cpu)
{
	for (size_t i = 0; i < scope->place_count; i++)
		if (scope->places[i].cpu == cpu)
			return &scope->places[i];
	return NULL;
}

/* Its events, at first or again. */
static int open_cpu(struct scope *scope, unsigned int cpu, struct detail detail)
{
	struct place *place = place_of(scope, (int)cpu);
	int err;

	if (!place && array_grow(&scope->places, &scope->place_room, scope->place_count + 1,
				 sizeof(*scope->places)))
		return -ENOMEM;
	err = open_all(scope, -1, (int)cpu, detail);
	if (err)
		return err;
	if (!place)
		place = &scope->places[scope->place_count++];
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

static int open_cpus(struct scope *scope, struct detail detail)
{
	unsigned int *online;
	size_t online_count, count = scope->cpu_count;
	int err = cpus_online(&online, &online_count);
	const unsigned int *cpus = scope->cpus;

	if (err)
		return err;
	if (!cpus) {
		cpus = online;
		count = online_count;
	}
	err = scope_need(scope, 0, detail);
	for (size_t i = 0; i < count && !err; i++) {
		if (place_of(scope, (int)cpus[i]))
			continue;
		err = is_among(online, online_count, (int)cpus[i])
			      ? open_cpu(scope, cpus[i], detail)
			      : detail_set(detail, -ENODEV, "CPU %u is not online", cpus[i]);
	}
	free(online);
	return err;
}

static void close_cpu(struct scope *scope, int cpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < scope->count; i++) {
		const struct opened opened = scope->opened[i];

		if (opened.cpu != cpu) {
			scope->opened[kept++] = opened;
			continue;
		}
		scope->way->leave(scope, &opened);
		close(opened.fd);
	}
	scope->count = kept;
}

/*
 * Whether its events do not count any more. When a CPU goes offline, also for a moment as the
 * machine is suspended, the kernel takes its events out of their context permanently, and
 * PERF_EVENT_IOC_ENABLE changes nothing (cpu_follow.c). Their time then stops. A cgroup's time
 * also stops whenever nothing of it runs.
 */
static int is_dead(const struct scope *scope, struct place *place)
{
	struct scope_value value;
	int is_same;

	if (!place->is_online)
		return 1;
	if (scope->cgroup_fd >= 0 || !scope->is_enabled)
		return 0;
	for (size_t i = 0; i < scope->count; i++) {
		if (scope->opened[i].cpu != place->cpu)
			continue;
		if (scope_read(&scope->opened[i], &value))
			return 0;
		is_same = value.enabled_ns == place->enabled_ns;
		place->enabled_ns = value.enabled_ns;
		return is_same;
	}
	return 1;
}

int scope_follow(struct scope *scope)
{
	char words[64];
	struct detail detail = { words, sizeof(words) };
	unsigned int *online;
	size_t count;
	int err;

	if (scope->ids)
		return 0;
	err = cpus_online(&online, &count);
	for (size_t i = 0; i < scope->place_count && !err; i++)
		scope->places[i].is_online &= is_among(online, count, scope->places[i].cpu);
	for (size_t i = 0; i < count && !err; i++) {
		struct place *place = place_of(scope, (int)online[i]);
		size_t first;

		if (place ? !is_dead(scope, place) : scope->cpus != NULL)
			continue;
		close_cpu(scope, (int)online[i]);
		first = scope->count;
		if (open_cpu(scope, online[i], detail)) {
			if (place)
				place->is_online = 0; /* the next look tries again */
			continue;
		}
		if (scope->is_enabled)
			order_from(scope, first, PERF_EVENT_IOC_ENABLE);
		scope->cpus_back++;
	}
	free(online);
	return err;
}

/* ---- all ---- */

/* All that there are, before any is opened. */
int scope_need(const struct scope *scope, size_t more, struct detail detail)
{
	size_t all = 0, count;
	unsigned int *cpus;
	pid_t *threads;

	if (scope->are_threads) {
		all = scope->id_count;
	} else if (scope->cpus) {
		all = scope->cpu_count;
	} else if (!scope->ids) {
		if (!cpus_online(&cpus, &all))
			free(cpus);
	}
	for (size_t i = 0; !scope->are_threads && scope->ids && i < scope->id_count; i++) {
		if (!threads_read(scope->ids[i], &threads, &count))
			all += count;
		free(threads);
	}
	return descriptors_need(more + all * scope->needs, detail);
}

int scope_open(struct scope *scope, struct detail detail)
{
	if (!scope->ids)
		return open_cpus(scope, detail);
	return scope->are_threads ? open_threads(scope, detail) : open_processes(scope, detail);
}

void scope_enable(struct scope *scope)
{
	scope->is_enabled = 1;
	order_from(scope, 0, PERF_EVENT_IOC_ENABLE);
	resume(scope);
}

void scope_disable(struct scope *scope)
{
	scope->is_enabled = 0;
	order_from(scope, 0, PERF_EVENT_IOC_DISABLE);
}

void scope_close(struct scope *scope)
{
	resume(scope);
	close_from(scope, 0);
	free(scope->opened);
	free(scope->places);
}
