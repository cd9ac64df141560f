/* SPDX-License-Identifier: MIT */
#include "record/perf/counts.h"

#include "record/perf/extent.h"
#include "record/perf/refused.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/error.h>

struct counts {
	const struct counts_request *request;
	struct extent extent;
	struct count_value *kept; /* of events that are closed */
	int excludes_kernel;
};

static struct counts *counts_of(struct extent *extent)
{
	return (struct counts *)(void *)((char *)extent - offsetof(struct counts, extent));
}

static int open_event(const struct counts *counts, const struct count_event *event, pid_t tid,
		      int cpu, int group_fd)
{
	const struct counts_request *request = counts->request;
	int is_thread = request->scope != COUNTS_CPUS;
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
		.exclude_kernel = event->excludes_kernel ||
				  (counts->excludes_kernel && count_event_has_user_part(event)),
		.exclude_hv = event->excludes_hypervisor,
		.enable_on_exec = request->scope == COUNTS_COMMAND && group_fd < 0,
	};

	return instance_open_attr(&attr, tid, cpu, group_fd, request->cgroup_fd);
}

/* Why the kernel refused it, in words. */
static int refused(const struct counts *counts, unsigned int which, pid_t tid, int cpu, int error,
		   struct detail detail)
{
	const struct counts_request *request = counts->request;
	const struct count_event *event = &request->events[which];
	int is_member = which && request->groups[which] == request->groups[which - 1];
	int has_kernel = !event->excludes_kernel && !counts->excludes_kernel, err;

	/* not by our capabilities: the kernel asks for those outside of a user namespace */
	if ((error == -EACCES || error == -EPERM) && tid >= 0 && perf_paranoid() > 1 &&
	    !event->has_modifiers && !count_event_has_user_part(event))
		return detail_set(detail, -WM_E_PERF_DENIED,
				  "%s happens in the kernel alone; " PERF_PARANOID
				  " is %d; it must be 1 or lower",
				  event->name, perf_paranoid());
	err = extent_refused(&counts->extent, event, has_kernel, tid, cpu, error, detail);
	if (err == -WM_E_COUNT_UNIT && is_member)
		return detail_set(detail, err, "%s, or its group is too large", event->name);
	return err;
}

static int is_its_cpu(const struct count_event *event, int cpu)
{
	return cpu >= 0 && cpu < COUNT_CPUS_MAX && event->cpus[cpu / 64] >> cpu % 64 & 1;
}

static int open_all(struct extent *extent, pid_t tid, int cpu, struct detail detail)
{
	struct counts *counts = counts_of(extent);
	const struct counts_request *request = counts->request;
	int leader = -1;

	if (extent_reserve(extent, request->event_count))
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
		    !counts->excludes_kernel && count_event_has_user_part(event)) {
			counts->excludes_kernel = 1;
			fd = open_event(counts, event, tid, cpu, leader);
		}
		if (fd == -ESRCH)
			return fd;
		if (fd < 0)
			return refused(counts, i, tid, cpu, fd, detail);
		extent_add(extent, &(struct instance){ fd, tid, cpu, i, leader < 0 });
		leader = leader < 0 ? fd : leader;
	}
	return 0;
}

static int add_read(struct count_value *sum, const struct instance *instance)
{
	struct instance_count own;
	int err = instance_read(instance, &own);

	sum->count += own.hits;
	sum->enabled_ns += own.enabled_ns;
	sum->running_ns += own.third;
	return err;
}

/* Keep what it counted. */
static void leave(struct extent *extent, const struct instance *instance)
{
	add_read(&counts_of(extent)->kept[instance->source], instance);
}

static const struct extent_way way = { .open = open_all, .leave = leave };

int counts_follow(struct counts *counts)
{
	return extent_follow(&counts->extent, (struct detail){ 0 });
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
	counts->extent = (struct extent){
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
	err = counts->kept ? extent_open(&counts->extent, detail) : -ENOMEM;
	if (err) {
		counts_close(counts);
		return err;
	}
	*out = counts;
	return 0;
}

void counts_enable(struct counts *counts)
{
	extent_enable(&counts->extent);
	extent_resume(&counts->extent);
}

int counts_join(struct counts *counts, const pid_t *pid, struct detail detail)
{
	return extent_join(&counts->extent, pid, detail);
}

void counts_part(struct counts *counts)
{
	extent_part(&counts->extent);
}

int counts_read(struct counts *counts, struct count_value *values)
{
	const struct extent *extent = &counts->extent;

	memcpy(values, counts->kept, counts->request->event_count * sizeof(*values));
	for (size_t i = 0; i < extent->count; i++) {
		int err = add_read(&values[extent->opened[i].source], &extent->opened[i]);

		if (err)
			return err;
	}
	return 0;
}

void counts_covered(const struct counts *counts, struct counts_coverage *coverage)
{
	const struct extent *extent = &counts->extent;

	*coverage = (struct counts_coverage){
		.threads = extent->thread_count,
		.cpus = (unsigned int)extent->place_count,
		.cpus_back = extent->cpus_back,
		.is_doubtful = extent->is_doubtful,
		.excludes_kernel = counts->excludes_kernel,
	};
}

void counts_close(struct counts *counts)
{
	if (!counts)
		return;
	extent_release(&counts->extent);
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
