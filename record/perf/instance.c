/* SPDX-License-Identifier: MIT */
#include "record/perf/instance.h"

#include "record/perf/rings.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define SPARE 48       /* for whatever else this process opens, beside a trace's streams */
#define STREAMS_MIN 16 /* of these an eighth of the limit is open (trace/writer.h) */
#define STREAMS_MAX 256

/*
 * Where the program's addresses end: 47 bits, or 56 where it asked for them. The kernel takes no
 * address of its own.
 */
#define ADDRESS_END (UINT64_C(1) << 56)

/* ---- room for descriptors ---- */

/* Others get the lowest numbers that are free, so one far above is one only. */
static rlim_t descriptors_used(void)
{
	DIR *dir = opendir("/proc/self/fd");
	rlim_t used = dir ? 0 : 3;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		used += isdigit((unsigned char)entry->d_name[0]) != 0;
	if (dir)
		closedir(dir);
	return used;
}

/*
 * The kernel doubles a process's table as it fills, and waits for a grace period (5 to 30 ms) each
 * time where the process has several threads; so the table is made large enough in one step, while
 * the program still runs.
 */
static void table_grow(rlim_t end)
{
	int fd = open("/", O_PATH | O_CLOEXEC), last;

	if (fd < 0)
		return;
	last = fcntl(fd, F_DUPFD_CLOEXEC, (int)end);
	if (last >= 0)
		close(last);
	close(fd);
}

int perf_descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -errno : 0;
}

int perf_descriptors_need(size_t count, struct detail detail)
{
	rlim_t want = descriptors_used() + count + SPARE, streams;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return -errno;
	streams = limit.rlim_max / 8 < STREAMS_MAX ? limit.rlim_max / 8 : STREAMS_MAX;
	want += streams > STREAMS_MIN ? streams : STREAMS_MIN;
	if (want > limit.rlim_max)
		return detail_set(
			detail, -WM_E_NO_DESCRIPTORS,
			"%zu descriptors are needed, and some %d for the rest; RLIMIT_NOFILE allows %llu at most",
			count, (int)(want - count), (unsigned long long)limit.rlim_max);
	if (want > limit.rlim_cur) {
		int err = perf_descriptors_raise();

		if (err)
			return err;
	}
	table_grow(want - 1);
	return 0;
}

/* ---- events ---- */

int instance_open_attr(struct perf_event_attr *attr, pid_t tid, int cpu, int group_fd,
		       int cgroup_fd)
{
	int is_cgroup = tid < 0 && cgroup_fd >= 0;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC | (is_cgroup ? PERF_FLAG_PID_CGROUP : 0);
	long fd;

	tid = is_cgroup ? cgroup_fd : tid;
	fd = syscall(SYS_perf_event_open, attr, tid, cpu, group_fd, flags);
	/* also where another opener has raised the limit: the old one refused us */
	if (fd < 0 && errno == EMFILE && !perf_descriptors_raise())
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, group_fd, flags);
	return fd < 0 ? -errno : (int)fd;
}

static uint32_t breakpoint_type(enum event_kind kind)
{
	switch (kind) {
	case EVENT_WRITE:
		return HW_BREAKPOINT_W;
	case EVENT_READ_WRITE:
		return HW_BREAKPOINT_RW;
	default:
		return HW_BREAKPOINT_X;
	}
}

static void attr_fill(struct perf_event_attr *attr, const struct event_source *source,
		      const struct instance_form *form)
{
	int is_thread = form->scope == EVENT_THREAD || form->scope == EVENT_PROCESS;
	int has_children = (form->flags & EVENT_CHILDREN) != 0;

	*attr = (struct perf_event_attr){
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(*attr),
		.bp_type = breakpoint_type(source->kind),
		.bp_addr = source->address,
		.bp_len = source->kind == EVENT_EXECUTE ? sizeof(long) : source->bytes,
		.disabled = form->is_disabled,
		.exclude_kernel = !(form->flags & EVENT_KERNEL),
		.sample_period = form->flags & EVENT_SIGNAL ? 1 : 0,
	};
	attr->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	if (form->flags & EVENT_RINGS) {
		attr->sample_period = 1;
		attr->sample_id_all = 1;
		attr->sample_type = rings_sample_type(form->flags);
		attr->sample_regs_user = rings_registers(form->flags);
		attr->exclude_callchain_kernel = 1;
		if (form->flags & EVENT_CALLERS) /* with the instruction itself */
			attr->sample_max_stack = EVENT_CALLERS_MAX + 1;
		attr->use_clockid = 1;
		attr->clockid = CLOCK_MONOTONIC;
	}
	if (!is_thread)
		return;
	attr->inherit = form->scope == EVENT_PROCESS || has_children;
	attr->inherit_thread = attr->inherit && !has_children;
	attr->task = form->tells_tasks;
	if (attr->inherit && !form->is_exchanged)
		attr->sample_type |= PERF_SAMPLE_READ | PERF_SAMPLE_TID;
	/* the address means nothing in another program */
	attr->remove_on_exec = 1;
	if (form->flags & EVENT_SIGNAL) {
		attr->sigtrap = 1;
		attr->sig_data = (source->sig_data & ~EVENT_OBJECT_BITS) |
				 (uint64_t)form->generation << 8;
	}
}

/* One of those that a thread has on a CPU is enough. */
static uint8_t tells_tasks(const struct instance *instance, const struct instance_form *form)
{
	return form->scope == EVENT_PROCESS && form->flags & EVENT_RINGS && !instance->source;
}

int instance_open(struct instance *instance, const struct event_source *source,
		  const struct instance_form *form, int group_fd)
{
	struct instance_form own = *form;
	struct perf_event_attr attr;
	int fd;

	own.is_disabled = instance->is_leader;
	own.tells_tasks = tells_tasks(instance, form);
	attr_fill(&attr, source, &own);
	fd = instance_open_attr(&attr, instance->tid, instance->cpu, group_fd, -1);
	instance->fd = fd < 0 ? -1 : fd;
	return fd < 0 ? fd : 0;
}

int instance_modify(const struct instance *instance, const struct event_source *source,
		    const struct instance_form *form)
{
	struct instance_form own = *form;
	struct perf_event_attr attr;

	own.tells_tasks = tells_tasks(instance, form); /* the kernel wants it as it was */
	own.is_disabled = 0; /* copied with the rest, and it would stay off */
	attr_fill(&attr, source, &own);
	return ioctl(instance->fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr) ? -errno : 0;
}

int instance_to_ring(const struct instance *instance, int ring_fd)
{
	return ioctl(instance->fd, PERF_EVENT_IOC_SET_OUTPUT, ring_fd) ? -errno : 0;
}

void instance_enable(const struct instance *leader)
{
	ioctl(leader->fd, PERF_EVENT_IOC_ENABLE, 0);
}

void instance_disable(const struct instance *leader)
{
	ioctl(leader->fd, PERF_EVENT_IOC_DISABLE, 0);
}

int instance_read(const struct instance *instance, struct instance_count *count)
{
	ssize_t bytes = read(instance->fd, count, sizeof(*count));

	if (bytes == sizeof(*count))
		return 0;
	*count = (struct instance_count){ 0 };
	return bytes < 0 ? -errno : 0;
}

int instance_keeps_place(void)
{
	struct event_source source = { .kind = EVENT_WRITE, .bytes = 1, .address = 1 };
	struct instance_form form = { .scope = EVENT_PROCESS };
	struct instance own = { .tid = gettid(), .cpu = -1, .is_leader = 1 };
	int err = instance_open(&own, &source, &form, -1);

	if (!err)
		close(own.fd);
	return err != -EINVAL;
}

int instance_free_registers(pid_t tid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_len = 1,
		.bp_addr = 1,
		.disabled = 1,
		.exclude_kernel = 1,
	};
	int fds[EVENT_SOURCES_MAX], count = 0, err = 0;

	while (count < EVENT_SOURCES_MAX) {
		int fd = instance_open_attr(&attr, tid, cpu, -1, -1);

		if (fd < 0) {
			err = fd;
			break;
		}
		fds[count++] = fd;
	}
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return err && err != -ENOSPC ? err : count;
}

int perf_source_check(const struct event_source *source, unsigned int flags, struct detail detail)
{
	uint64_t bytes = source->kind == EVENT_EXECUTE ? 1 : source->bytes;

	if (source->kind < EVENT_WRITE || source->kind > EVENT_EXECUTE)
		return -EINVAL;
	if (source->kind == EVENT_EXECUTE ? source->bytes != 0
					  : bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
		return detail_set(detail, -EINVAL, "no breakpoint is of %" PRIu32 " bytes",
				  source->bytes);
	if (!source->address)
		return detail_set(detail, -EINVAL, "the address is 0");
	if (source->address % bytes)
		return detail_set(detail, -EINVAL,
				  "0x%" PRIx64 " is no multiple of its %" PRIu64 " bytes",
				  source->address, bytes);
	if (source->address >= ADDRESS_END)
		return detail_set(detail, -EINVAL, "0x%" PRIx64 " is the kernel's",
				  source->address);
	if (flags & EVENT_SIGNAL && source->sig_data & EVENT_OBJECT_BITS)
		return -EINVAL;
	return 0;
}
