/* SPDX-License-Identifier: MIT */
#include "perf/counts.h"

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
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

struct opened {
	int fd;
	unsigned int event;
	int cpu; /* -1: a thread's */
	int is_leader;
};

/* A CPU that was ever online. */
struct place {
	int cpu;
	int is_online;
	uint64_t enabled_ns; /* of its first event, at the last look */
};

struct counts {
	const struct counts_request *request;
	struct opened *opened;
	size_t count, room;
	struct place *places; /* COUNTS_CPUS */
	size_t place_count, place_room;
	struct count_value *kept; /* of events that are closed */
	struct counts_coverage coverage;
	struct stop **stops; /* one for each process until they are enabled; NULL: none */
	int is_enabled;
};

/* ---- one event ---- */

static int open_event(const struct counts *counts, const struct count_event *event, pid_t tid,
		      int cpu, int group_fd)
{
	const struct counts_request *request = counts->request;
	int is_thread = request->scope != COUNTS_CPUS;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.config1 = event->config1,
		.config2 = event->config2,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = group_fd < 0,
		.inherit = is_thread && !request->no_children,
		.exclude_user = event->excludes_user,
		.exclude_kernel = event->excludes_kernel || counts->coverage.excludes_kernel,
		.exclude_hv = event->excludes_hypervisor,
		.enable_on_exec = request->scope == COUNTS_COMMAND && group_fd < 0,
	};
	long fd;

	if (!is_thread && request->cgroup_fd >= 0) {
		flags |= PERF_FLAG_PID_CGROUP;
		tid = request->cgroup_fd;
	}
	fd = syscall(SYS_perf_event_open, &attr, tid, cpu, group_fd, flags);
	return fd < 0 ? -errno : (int)fd;
}

/* Why the kernel refused it, in words. */
static int refused(const struct counts *counts, unsigned int which, pid_t tid, int cpu, int error,
		   struct detail detail)
{
	const struct counts_request *request = counts->request;
	const struct count_event *event = &request->events[which];
	int is_member = which && request->groups[which] == request->groups[which - 1], err;
	struct target target;
	char whose[64];

	if (cpu >= 0)
		snprintf(whose, sizeof(whose), "CPU %d", cpu);
	else
		snprintf(whose, sizeof(whose), "thread %d", (int)tid);
	switch (-error) {
	case EMFILE:
		return detail_set(detail, -WM_E_NO_DESCRIPTORS,
				  "%zu are open; RLIMIT_NOFILE is reached", counts->count);
	case ENOSYS:
		return detail_set(detail, -ENOSYS, PERF_IS_MISSING);
	case EACCES:
	case EPERM:
		err = object_forbidden(cpu < 0,
				       !event->excludes_kernel && !counts->coverage.excludes_kernel,
				       detail);
		if (err)
			return err;
		if (error == -EPERM && target_status_number(getpid(), "Seccomp") > 0)
			return detail_set(detail, -WM_E_PERF_DENIED, PERF_IS_FILTERED);
		if (cpu < 0 && !target_read(&target, tid))
			return target_denied(&target, detail);
		return detail_set(detail, -EPERM, "%s of %s", event->name, whose);
	case EBADF:
		return detail_set(
			detail, -EINVAL,
			"the folder is no cgroup of version 2, or of version 1's perf_event");
	case ENODEV:
		if (cpu >= 0)
			return detail_set(detail, error, "CPU %d is not online", cpu);
		/* falls through */
	case ENOENT:
	case EOPNOTSUPP:
	case EINVAL:
		if (error == -EINVAL && event->is_of_cpus && cpu < 0)
			return detail_set(detail, -WM_E_COUNT_UNIT,
					  "%s counts for CPUs, not for threads: use --all",
					  event->name);
		return detail_set(detail, -WM_E_COUNT_UNIT, "%s%s", event->name,
				  is_member ? ", or its group is too large" : "");
	default:
		return detail_set(detail, error, "%s of %s", event->name, whose);
	}
}

static int is_its_cpu(const struct count_event *event, int cpu)
{
	return cpu >= 0 && cpu < COUNT_CPUS_MAX && event->cpus[cpu / 64] >> cpu % 64 & 1;
}

/* All events on a thread or a CPU. 0, also where the thread has ended: *has_ended then. */
static int open_all(struct counts *counts, pid_t tid, int cpu, int *has_ended, struct detail detail)
{
	const struct counts_request *request = counts->request;
	size_t first = counts->count;
	int leader = -1;

	*has_ended = 0;
	if (array_grow(&counts->opened, &counts->room, first + request->event_count,
		       sizeof(*counts->opened)))
		return -ENOMEM;
	for (unsigned int i = 0; i < request->event_count; i++) {
		const struct count_event *event = &request->events[i];
		int fd;

		if (!i || request->groups[i] != request->groups[i - 1])
			leader = -1;
		if (event->is_of_cpus && !is_its_cpu(event, cpu))
			continue;
		fd = open_event(counts, event, tid, cpu, leader);
		/* as perf does: without rights to the kernel's part, all count in user space */
		if ((fd == -EACCES || fd == -EPERM) && cpu < 0 && !event->has_modifiers &&
		    !counts->coverage.excludes_kernel) {
			counts->coverage.excludes_kernel = 1;
			fd = open_event(counts, event, tid, cpu, leader);
		}
		if (fd == -ESRCH) {
			while (counts->count > first)
				close(counts->opened[--counts->count].fd);
			*has_ended = 1;
			return 0;
		}
		if (fd < 0)
			return refused(counts, i, tid, cpu, fd, detail);
		counts->opened[counts->count++] = (struct opened){ fd, i, cpu, leader < 0 };
		leader = leader < 0 ? fd : leader;
	}
	return 0;
}

static void enable_from(const struct counts *counts, size_t first)
{
	for (size_t i = first; i < counts->count; i++)
		if (counts->opened[i].is_leader)
			ioctl(counts->opened[i].fd, PERF_EVENT_IOC_ENABLE, 0);
}

/* ---- threads ---- */

static int open_thread(struct counts *counts, pid_t tid, struct detail detail)
{
	int has_ended, err = open_all(counts, tid, -1, &has_ended, detail);

	counts->coverage.threads += !err && !has_ended;
	return err;
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
static int open_process(struct counts *counts, pid_t pid, int *has_changed, struct detail detail)
{
	pid_t *threads, *again = NULL;
	size_t count, count_again = 0;
	int err = threads_read(pid, &threads, &count);

	if (!err)
		err = descriptors_need(counts->count + count * counts->request->event_count,
				       detail);
	for (size_t i = 0; i < count && !err; i++)
		err = open_thread(counts, threads[i], detail);
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

static void close_all(struct counts *counts)
{
	while (counts->count)
		close(counts->opened[--counts->count].fd);
	counts->coverage.threads = 0;
}

/* They stay stopped until all of them are enabled. */
static int stop_all(struct counts *counts)
{
	const struct counts_request *request = counts->request;

	counts->stops = calloc(request->id_count, sizeof(struct stop *));
	if (!counts->stops)
		return -ENOMEM;
	for (size_t i = 0; i < request->id_count; i++) {
		int err = stop_threads(request->ids[i], 0, &counts->stops[i]);

		/* a stopped process starts no threads */
		counts->coverage.is_doubtful |= err && err != -WM_E_STOPPED && err != -ESRCH;
	}
	return 0;
}

/* A process is stopped only if it starts and ends threads meanwhile. */
static int open_processes(struct counts *counts, struct detail detail)
{
	const struct counts_request *request = counts->request;
	int has_changed = 0, err = 0;

	for (size_t i = 0; i < request->id_count && !err; i++)
		err = open_process(counts, request->ids[i], &has_changed, detail);
	if (!err && has_changed) {
		close_all(counts);
		err = stop_all(counts);
		for (size_t i = 0; i < request->id_count && !err; i++)
			err = open_process(counts, request->ids[i], &has_changed, detail);
	}
	if (!err && !counts->coverage.threads)
		err = detail_set(detail, -WM_E_GONE, "process %d", (int)request->ids[0]);
	return err;
}

static void resume(struct counts *counts)
{
	for (size_t i = 0; counts->stops && i < counts->request->id_count; i++)
		stop_resume(counts->stops[i]);
	free(counts->stops);
	counts->stops = NULL;
}

static int open_threads(struct counts *counts, struct detail detail)
{
	const struct counts_request *request = counts->request;
	int err = descriptors_need(request->id_count * request->event_count, detail);

	for (size_t i = 0; i < request->id_count && !err; i++) {
		unsigned int before = counts->coverage.threads;

		err = open_thread(counts, request->ids[i], detail);
		if (!err && counts->coverage.threads == before)
			err = detail_set(detail, -WM_E_GONE, "thread %d", (int)request->ids[i]);
	}
	return err;
}

/* ---- CPUs ---- */

static struct place *place_of(struct counts *counts, int cpu)
{
	for (size_t i = 0; i < counts->place_count; i++)
		if (counts->places[i].cpu == cpu)
			return &counts->places[i];
	return NULL;
}

/* Its events, at first or again. */
static int open_cpu(struct counts *counts, unsigned int cpu, struct detail detail)
{
	struct place *place = place_of(counts, (int)cpu);
	size_t first = counts->count;
	int has_ended, err;

	if (!place && array_grow(&counts->places, &counts->place_room, counts->place_count + 1,
				 sizeof(*counts->places)))
		return -ENOMEM;
	err = open_all(counts, -1, (int)cpu, &has_ended, detail);
	if (err) {
		while (counts->count > first)
			close(counts->opened[--counts->count].fd);
		return err;
	}
	if (!place) {
		place = &counts->places[counts->place_count++];
		counts->coverage.cpus++;
	}
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

static int open_cpus(struct counts *counts, struct detail detail)
{
	const struct counts_request *request = counts->request;
	unsigned int *online;
	size_t online_count, count = request->cpu_count;
	int err = cpus_online(&online, &online_count);
	const unsigned int *cpus = request->cpus;

	if (err)
		return err;
	if (!cpus) {
		cpus = online;
		count = online_count;
	}
	err = descriptors_need(count * request->event_count, detail);
	for (size_t i = 0; i < count && !err; i++) {
		if (place_of(counts, (int)cpus[i]))
			continue;
		err = is_among(online, online_count, (int)cpus[i])
			      ? open_cpu(counts, cpus[i], detail)
			      : detail_set(detail, -ENODEV, "CPU %u is not online", cpus[i]);
	}
	free(online);
	return err;
}

static int read_event(int fd, struct count_value *value)
{
	ssize_t bytes = read(fd, value, sizeof(*value));

	if (bytes == sizeof(*value))
		return 0;
	*value = (struct count_value){ 0 };
	return bytes < 0 ? -errno
			 : 0; /* nothing to read: its group was torn, and it counted nothing */
}

static void add(struct count_value *sum, const struct count_value *value)
{
	sum->count += value->count;
	sum->enabled_ns += value->enabled_ns;
	sum->running_ns += value->running_ns;
}

/* Keep what they counted, and close them. */
static void close_cpu(struct counts *counts, int cpu)
{
	size_t kept = 0;

	for (size_t i = 0; i < counts->count; i++) {
		const struct opened opened = counts->opened[i];
		struct count_value value;

		if (opened.cpu != cpu) {
			counts->opened[kept++] = opened;
			continue;
		}
		read_event(opened.fd, &value);
		add(&counts->kept[opened.event], &value);
		close(opened.fd);
	}
	counts->count = kept;
}

/*
 * Whether its events do not count any more. When a CPU goes offline, also for a moment as the
 * machine is suspended, the kernel takes its events out of their context permanently, and
 * PERF_EVENT_IOC_ENABLE changes nothing (cpu_follow.c). Their time then stops. A cgroup's time
 * also stops whenever nothing of it runs.
 */
static int is_dead(const struct counts *counts, struct place *place)
{
	struct count_value value;
	int is_same;

	if (!place->is_online)
		return 1;
	if (counts->request->cgroup_fd >= 0 || !counts->is_enabled)
		return 0;
	for (size_t i = 0; i < counts->count; i++) {
		if (counts->opened[i].cpu != place->cpu)
			continue;
		if (read_event(counts->opened[i].fd, &value))
			return 0;
		is_same = value.enabled_ns == place->enabled_ns;
		place->enabled_ns = value.enabled_ns;
		return is_same;
	}
	return 1;
}

int counts_follow(struct counts *counts)
{
	const struct counts_request *request = counts->request;
	char words[64];
	struct detail detail = { words, sizeof(words) };
	unsigned int *online;
	size_t count;
	int err;

	if (request->scope != COUNTS_CPUS)
		return 0;
	err = cpus_online(&online, &count);
	for (size_t i = 0; i < counts->place_count && !err; i++)
		counts->places[i].is_online &= is_among(online, count, counts->places[i].cpu);
	for (size_t i = 0; i < count && !err; i++) {
		struct place *place = place_of(counts, (int)online[i]);
		size_t first;

		if (place ? !is_dead(counts, place) : request->cpus != NULL)
			continue;
		close_cpu(counts, (int)online[i]);
		first = counts->count;
		if (open_cpu(counts, online[i], detail)) {
			if (place)
				place->is_online = 0; /* the next look tries again */
			continue;
		}
		if (counts->is_enabled)
			enable_from(counts, first);
		counts->coverage.cpus_back++;
	}
	free(online);
	return err;
}

/* ---- */

static int open_scope(struct counts *counts, struct detail detail)
{
	switch (counts->request->scope) {
	case COUNTS_PROCESSES:
		return open_processes(counts, detail);
	case COUNTS_CPUS:
		return open_cpus(counts, detail);
	default:
		return open_threads(counts, detail);
	}
}

int counts_open(struct counts **out, const struct counts_request *request, struct detail detail)
{
	struct counts *counts;
	int err;

	*out = NULL;
	if (!request->event_count)
		return -EINVAL;
	for (size_t i = 0; i < request->event_count; i++)
		if (request->events[i].is_of_cpus && request->scope != COUNTS_CPUS)
			return detail_set(detail, -WM_E_COUNT_UNIT,
					  "%s counts for CPUs, not for threads: use --all",
					  request->events[i].name);
	counts = calloc(1, sizeof(*counts));
	if (!counts)
		return -ENOMEM;
	counts->request = request;
	counts->kept = calloc(request->event_count, sizeof(*counts->kept));
	err = counts->kept ? open_scope(counts, detail) : -ENOMEM;
	if (err) {
		counts_close(counts);
		return err;
	}
	*out = counts;
	return 0;
}

void counts_enable(struct counts *counts)
{
	counts->is_enabled = 1;
	enable_from(counts, 0);
	resume(counts);
}

int counts_read(struct counts *counts, struct count_value *values)
{
	memcpy(values, counts->kept, counts->request->event_count * sizeof(*values));
	for (size_t i = 0; i < counts->count; i++) {
		struct count_value value;
		int err = read_event(counts->opened[i].fd, &value);

		if (err)
			return err;
		add(&values[counts->opened[i].event], &value);
	}
	return 0;
}

void counts_covered(const struct counts *counts, struct counts_coverage *coverage)
{
	*coverage = counts->coverage;
}

void counts_close(struct counts *counts)
{
	if (!counts)
		return;
	resume(counts);
	close_all(counts);
	free(counts->opened);
	free(counts->places);
	free(counts->kept);
	free(counts);
}

int count_event_probe(const struct count_event *event, struct detail detail)
{
	const unsigned int group = 0;
	const pid_t self = gettid();
	const struct counts_request request = {
		.scope = event->is_of_cpus ? COUNTS_CPUS : COUNTS_THREADS,
		.events = event,
		.groups = &group,
		.event_count = 1,
		.ids = &self,
		.id_count = 1,
		.cgroup_fd = -1,
	};
	struct counts *counts;
	int err = counts_open(&counts, &request, detail);

	counts_close(counts);
	return err;
}
