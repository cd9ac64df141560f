/* SPDX-License-Identifier: MIT */
#include "perf/counts.h"

#include "perf/scope.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

struct counts {
	const struct counts_request *request;
	struct scope scope;
	struct count_value *kept; /* of events that are closed */
	int excludes_kernel;
};

static struct counts *counts_of(struct scope *scope)
{
	return (struct counts *)(void *)((char *)scope - offsetof(struct counts, scope));
}

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
		.exclude_kernel = event->excludes_kernel || counts->excludes_kernel,
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
	int is_member = which && request->groups[which] == request->groups[which - 1];
	int err = scope_refused(&counts->scope, event,
				!event->excludes_kernel && !counts->excludes_kernel, tid, cpu,
				error, detail);

	if (err == -WM_E_COUNT_UNIT && is_member)
		return detail_set(detail, err, "%s, or its group is too large", event->name);
	return err;
}

static int is_its_cpu(const struct count_event *event, int cpu)
{
	return cpu >= 0 && cpu < COUNT_CPUS_MAX && event->cpus[cpu / 64] >> cpu % 64 & 1;
}

static int open_all(struct scope *scope, pid_t tid, int cpu, struct detail detail)
{
	struct counts *counts = counts_of(scope);
	const struct counts_request *request = counts->request;
	int leader = -1;

	if (scope_reserve(scope, request->event_count))
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
		    !counts->excludes_kernel) {
			counts->excludes_kernel = 1;
			fd = open_event(counts, event, tid, cpu, leader);
		}
		if (fd == -ESRCH)
			return fd;
		if (fd < 0)
			return refused(counts, i, tid, cpu, fd, detail);
		scope_add(scope, fd, i, cpu, leader < 0);
		leader = leader < 0 ? fd : leader;
	}
	return 0;
}

static int read_event(const struct opened *opened, struct count_value *value)
{
	struct scope_value own;
	int err = scope_read(opened, &own);

	*value = (struct count_value){ own.count, own.enabled_ns, own.third };
	return err;
}

static void add(struct count_value *sum, const struct count_value *value)
{
	sum->count += value->count;
	sum->enabled_ns += value->enabled_ns;
	sum->running_ns += value->running_ns;
}

/* Keep what it counted. */
static void leave(struct scope *scope, const struct opened *opened)
{
	struct count_value value;

	read_event(opened, &value);
	add(&counts_of(scope)->kept[opened->event], &value);
}

static const struct scope_way way = { open_all, leave };

int counts_follow(struct counts *counts)
{
	return scope_follow(&counts->scope);
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
	counts->scope = (struct scope){
		.way = &way,
		.ids = request->scope == COUNTS_CPUS ? NULL : request->ids,
		.id_count = request->id_count,
		.are_threads = request->scope == COUNTS_THREADS || request->scope == COUNTS_COMMAND,
		.cpus = request->cpus,
		.cpu_count = request->cpu_count,
		.cgroup_fd = request->cgroup_fd,
		.needs = request->event_count,
	};
	counts->kept = calloc(request->event_count, sizeof(*counts->kept));
	err = counts->kept ? scope_open(&counts->scope, detail) : -ENOMEM;
	if (err) {
		counts_close(counts);
		return err;
	}
	*out = counts;
	return 0;
}

void counts_enable(struct counts *counts)
{
	scope_enable(&counts->scope);
}

int counts_read(struct counts *counts, struct count_value *values)
{
	const struct scope *scope = &counts->scope;

	memcpy(values, counts->kept, counts->request->event_count * sizeof(*values));
	for (size_t i = 0; i < scope->count; i++) {
		struct count_value value;
		int err = read_event(&scope->opened[i], &value);

		if (err)
			return err;
		add(&values[scope->opened[i].event], &value);
	}
	return 0;
}

void counts_covered(const struct counts *counts, struct counts_coverage *coverage)
{
	const struct scope *scope = &counts->scope;

	*coverage = (struct counts_coverage){
		.threads = scope->thread_count,
		.cpus = (unsigned int)scope->place_count,
		.cpus_back = scope->cpus_back,
		.is_doubtful = scope->is_doubtful,
		.excludes_kernel = counts->excludes_kernel,
	};
}

void counts_close(struct counts *counts)
{
	if (!counts)
		return;
	scope_close(&counts->scope);
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
