/* SPDX-License-Identifier: MIT */
/*
 * A sampler's events, opened. The kernel maps no ring for an event that threads inherit and that is
 * not of one CPU; so a thread has each event on each CPU that is present, and all events of a CPU
 * write into the one ring of that CPU (rings.h).
 */
#include "arch/perf_registers.h"
#include "base/number_file.h"
#include "record/perf/cpus.h"
#include "record/perf/refused.h"
#include "record/perf/sampler_own.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define RING_MAX (UINT64_C(1) << 30)
/* The general registers, flags and ip. */
#define ALL_REGS (perf_registers_general | PERF_REGISTER_IP_BIT)
#define KERNEL_BIT 63 /* of an address */

static struct sampler *sampler_of(struct extent *extent)
{
	return (struct sampler *)(void *)((char *)extent - offsetof(struct sampler, extent));
}

/* ---- attributes ---- */

struct sampler_form sampler_form_of(const struct sampler_event *event)
{
	struct sampler_form form = { .sample_type = SAMPLER_COMMON };
	static const struct {
		unsigned int want;
		uint64_t sample_type;
	} rows[] = {
		{ SAMPLER_ADDRESS, PERF_SAMPLE_ADDR },
		{ SAMPLER_CALLERS, PERF_SAMPLE_CALLCHAIN },
		{ SAMPLER_USER_IP, PERF_SAMPLE_REGS_USER },
		{ SAMPLER_RAW, PERF_SAMPLE_RAW },
		{ SAMPLER_REGS, PERF_SAMPLE_REGS_INTR },
		{ SAMPLER_STACK, PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER },
		{ SAMPLER_BRANCHES, PERF_SAMPLE_BRANCH_STACK },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (event->wants & rows[i].want)
			form.sample_type |= rows[i].sample_type;
	/* else the kernel would record each event, with a period of 1: perf_swevent_event() */
	if (event->what.type == PERF_TYPE_SOFTWARE && event->period)
		form.sample_type &= ~(uint64_t)PERF_SAMPLE_PERIOD;
	if (event->wants & SAMPLER_USER_IP)
		form.user_regs = PERF_REGISTER_IP_BIT;
	if (event->wants & SAMPLER_STACK)
		form.user_regs = ALL_REGS;
	if (event->wants & SAMPLER_REGS)
		form.event_regs = ALL_REGS;
	return form;
}

/* What all events have, so that they may share a ring. */
static struct perf_event_attr common_attr(const struct sampler *sampler)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.sample_type = SAMPLER_COMMON,
		.sample_id_all = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       (sampler->counts_lost ? PERF_FORMAT_LOST
						     : PERF_FORMAT_TOTAL_TIME_RUNNING),
		.disabled = 1,
		.inherit = sampler->request->scope == SAMPLER_PROCESSES,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

/* Switches and what tasks do: of an event that counts nothing. */
static struct perf_event_attr tasks_attr(const struct sampler *sampler)
{
	struct perf_event_attr attr = common_attr(sampler);
	int tasks = sampler->request->tasks != 0;

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.sample_period = 1;
	attr.exclude_kernel = 1;
	attr.context_switch = sampler->request->switches != 0;
	attr.mmap = attr.mmap2 = attr.comm = attr.comm_exec = attr.task = tasks;
	attr.build_id = tasks && sampler->counts_lost; /* Linux 5.12 has it */
	return attr;
}

static struct perf_event_attr event_attr(const struct sampler *sampler, unsigned int which)
{
	const struct sampler_event *event = &sampler->request->events[which];
	const struct sampler_form *form = &sampler->forms[which];
	struct perf_event_attr attr = common_attr(sampler);

	attr.type = event->what.type;
	attr.config = event->what.config;
	attr.config1 = event->what.config1;
	attr.config2 = event->what.config2;
	if (event->what.type == PERF_TYPE_BREAKPOINT) {
		attr.bp_type = event->bp_type;
		attr.bp_addr = event->bp_address;
		attr.bp_len = event->bp_bytes;
	}
	attr.freq = !event->period;
	if (event->period)
		attr.sample_period = event->period;
	else
		attr.sample_freq = event->freq_hz;
	attr.sample_type = form->sample_type;
	attr.sample_regs_user = form->user_regs;
	attr.sample_regs_intr = form->event_regs;
	if (event->wants & SAMPLER_STACK)
		attr.sample_stack_user = event->stack_bytes;
	if (event->wants & SAMPLER_BRANCHES)
		attr.branch_sample_type = PERF_SAMPLE_BRANCH_ANY;
	attr.precise_ip = event->precise;
	attr.exclude_user = event->what.excludes_user;
	attr.exclude_kernel = event->what.excludes_kernel || form->excludes_kernel;
	attr.exclude_callchain_kernel = attr.exclude_kernel;
	attr.exclude_hv = event->what.excludes_hypervisor;
	return attr;
}

static int perf_open(const struct sampler *sampler, struct perf_event_attr *attr, pid_t tid,
		     int cpu)
{
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;
	long fd;

	if (tid < 0 && sampler->request->cgroup_fd >= 0) {
		flags |= PERF_FLAG_PID_CGROUP;
		tid = sampler->request->cgroup_fd;
	}
	fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, flags);
	return fd < 0 ? -errno : (int)fd;
}

/* ---- what the kernel refuses ---- */

static int is_kernel_breakpoint(const struct sampler_event *event)
{
	return event->what.type == PERF_TYPE_BREAKPOINT && event->bp_address >> KERNEL_BIT;
}

static int is_kprobe(const struct sampler_event *event)
{
	return number_file_read("/sys/bus/event_source/devices/kprobe/type", -1) ==
	       event->what.type;
}

static int has_user_part(const struct sampler_event *event)
{
	return count_event_has_user_part(&event->what) && !is_kernel_breakpoint(event);
}

/* Names the privilege that we lack for the event. 0: we lack none, so the cause is another. */
static int denied(const struct sampler_event *event, pid_t tid, int has_kernel,
		  struct detail detail)
{
	int level = perf_paranoid(), most = tid < 0 ? 0 : has_kernel ? 1 : 2;
	const char *name = event->what.name;

	if (is_kernel_breakpoint(event) && geteuid())
		return detail_set(detail, -WM_E_PERF_DENIED, "%s needs CAP_SYS_ADMIN", name);
	if (perf_is_privileged())
		return 0;
	if (event->what.type == PERF_TYPE_TRACEPOINT && event->wants & SAMPLER_RAW)
		most = -1;
	if (level > most)
		return detail_set(detail, -WM_E_PERF_DENIED,
				  "%s needs CAP_PERFMON, or " PERF_PARANOID " at %d; it is %d",
				  name, most, level);
	if (is_kprobe(event))
		return detail_set(detail, -WM_E_PERF_DENIED, "%s needs CAP_PERFMON", name);
	return 0;
}

static const struct sampler_event none = { .what = { .name = "switches" } };

static int refused(const struct sampler *sampler, unsigned int which, pid_t tid, int cpu, int error,
		   struct detail detail)
{
	const struct sampler_request *request = sampler->request;
	const struct sampler_event *event = which < request->event_count ? &request->events[which]
									 : &none;
	int has_kernel = event != &none && !event->what.excludes_kernel, err;

	/* its user part alone was refused as well */
	if (tid >= 0 && has_user_part(event) && !event->what.has_modifiers)
		has_kernel = 0;

	if (error == -EACCES || error == -EPERM) {
		err = denied(event, tid, has_kernel, detail);
		if (err)
			return err;
	}
	if (error == -ENOSPC && event->what.type == PERF_TYPE_BREAKPOINT)
		return detail_set(detail, -WM_E_EVENT_TAKEN, "%s", event->what.name);
	return extent_refused(&sampler->extent, &event->what, has_kernel, tid, cpu, error, detail);
}

/* ---- one thread, one CPU ---- */

/* Opened: its records go into the CPU's ring. 0, -errno. */
static int add(struct sampler *sampler, int fd, unsigned int which, int cpu,
	       const struct cpu_ring *ring)
{
	int err = ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) ? -errno : 0;

	if (!err)
		err = rings_add(&sampler->rings, fd, which);
	if (err)
		close(fd);
	else
		extent_add(&sampler->extent, fd, which, cpu, 1);
	return err;
}

static int open_event(struct sampler *sampler, unsigned int which, pid_t tid, int cpu)
{
	const struct sampler_request *request = sampler->request;
	const struct sampler_event *event = &request->events[which];
	struct perf_event_attr attr;
	int fd;

	if (which == request->event_count) {
		attr = tasks_attr(sampler);
		return perf_open(sampler, &attr, tid, cpu);
	}
	attr = event_attr(sampler, which);
	fd = perf_open(sampler, &attr, tid, cpu);
	if ((fd != -EACCES && fd != -EPERM) || attr.exclude_kernel || event->what.has_modifiers ||
	    tid < 0 || !has_user_part(event))
		return fd;
	sampler->forms[which].excludes_kernel = 1;
	attr = event_attr(sampler, which);
	fd = perf_open(sampler, &attr, tid, cpu);
	if (fd < 0)
		sampler->forms[which].excludes_kernel = 0;
	return fd;
}

static size_t event_count(const struct sampler_request *request)
{
	return request->event_count + (request->switches || request->tasks);
}

/* cpu: the ring's. */
static int open_on(struct sampler *sampler, pid_t tid, const struct cpu_ring *ring,
		   struct detail detail)
{
	int cpu = (int)ring->cpu;

	if (extent_reserve(&sampler->extent, event_count(sampler->request)))
		return -ENOMEM;
	for (unsigned int i = 0; i < event_count(sampler->request); i++) {
		int fd = open_event(sampler, i, tid, cpu), err;

		if (fd == -ESRCH)
			return fd;
		if (fd < 0)
			return refused(sampler, i, tid, cpu, fd, detail);
		err = add(sampler, fd, i, cpu, ring);
		if (err)
			return detail_set(detail, err, "the ring of CPU %d", cpu);
	}
	return 0;
}

static int open_all(struct extent *extent, pid_t tid, int cpu, struct detail detail)
{
	struct sampler *sampler = sampler_of(extent);
	struct rings *rings = &sampler->rings;
	int err = 0;

	if (cpu >= 0)
		err = rings_open_cpu(rings, (unsigned int)cpu);
	for (unsigned int i = 0; i < rings->count && !err; i++)
		if (cpu < 0 || rings->all[i].cpu == (unsigned int)cpu)
			err = open_on(sampler, tid, &rings->all[i], detail);
	return err;
}

/* What it lost is still to be reported. */
static void leave(struct extent *extent, const struct opened *opened)
{
	struct sampler *sampler = sampler_of(extent);
	struct extent_value value;

	if (!sampler->counts_lost || extent_read(opened, &value))
		return;
	for (unsigned int i = 0; i < sampler->lane_count; i++)
		if (sampler->rings.all[i].cpu == (unsigned int)opened->cpu)
			sampler->lanes[i].lost_counted += value.third;
}

static const struct extent_way way = { open_all, leave };

/* ---- all ---- */

/* Whether this kernel counts records for which a ring had no room, by events. */
static int counts_lost(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.disabled = 1,
		.exclude_kernel = 1,
		.read_format = PERF_FORMAT_LOST,
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

/* What our CLOCK_MONOTONIC is ahead of the kernel's own; modulo 2^64. */
static uint64_t clock_offset_ns(void)
{
	FILE *file = fopen("/proc/self/timens_offsets", "re");
	long long seconds = 0, ns = 0;

	if (file && fscanf(file, "monotonic %lld %lld", &seconds, &ns) != 2)
		seconds = ns = 0;
	if (file)
		fclose(file);
	return (uint64_t)(seconds * 1000000000 + ns);
}

static int too_large(size_t count, uint32_t bytes, struct detail detail)
{
	struct rlimit limit = { 0 };
	long kb = number_file_read("/proc/sys/kernel/perf_event_mlock_kb", -1);

	getrlimit(RLIMIT_MEMLOCK, &limit);
	return detail_set(
		detail, -WM_E_MEMORY_LIMIT,
		"%zu rings take %llu KiB of locked memory; kernel.perf_event_mlock_kb allows %ld for each CPU, and ulimit -l %llu KiB more",
		count,
		(unsigned long long)rings_locked_bytes(count, bytes ? bytes : (uint32_t)PAGE) >> 10,
		kb, (unsigned long long)limit.rlim_cur >> 10);
}

static int open_rings(struct sampler *sampler, const unsigned int *cpus, size_t count,
		      struct detail detail)
{
	uint64_t wanted = sampler->request->ring_bytes;
	uint32_t bytes = wanted ? PAGE : 0;
	int err;

	if (wanted > RING_MAX)
		return -EINVAL;
	while (bytes < wanted)
		bytes *= 2;
	err = rings_open_on(&sampler->rings, cpus, count, bytes, PAGE);
	if (err == -WM_E_MEMORY_LIMIT)
		return too_large(count, bytes, detail);
	/* a ring needs no more than an event of our own */
	if (err == -EPERM || err == -EACCES || err == -ENOSYS)
		return extent_refused(&sampler->extent, &none.what, 0, 0, -1, err, detail);
	return err ? detail_set(detail, err, "the rings of %zu CPUs", count) : 0;
}

/* Before anything is opened. */
static int check(const struct sampler_request *request, struct detail detail)
{
	if (!event_count(request))
		return -EINVAL;
	if (request->scope == SAMPLER_PROCESSES ? !request->pid_count
						: request->scope != SAMPLER_CPUS)
		return -EINVAL;
	for (size_t i = 0; i < request->event_count; i++) {
		const struct sampler_event *event = &request->events[i];

		if (!event->period && !event->freq_hz)
			return detail_set(detail, -EINVAL, "%s has no period", event->what.name);
		/* inherited, it would fail the target's clone(2): hw_breakpoint_parse() */
		if (request->scope == SAMPLER_PROCESSES && event->bp_address >> 63)
			return detail_set(detail, -EINVAL, "%s is of CPUs", event->what.name);
		if (event->what.is_of_cpus)
			return detail_set(detail, -WM_E_COUNT_UNIT, "%s counts alone",
					  event->what.name);
	}
	return 0;
}

static int open_extent(struct sampler *sampler, struct detail detail)
{
	struct extent *extent = &sampler->extent;
	unsigned int *cpus;
	size_t count;
	int err = extent->ids ? cpus_present(&cpus, &count)
			      : extent_cpus(extent, &cpus, &count, detail);

	if (err)
		return err;
	extent->needs *= extent->ids ? count : 1;
	err = extent_need(extent, count, detail);
	if (!err)
		err = open_rings(sampler, cpus, count, detail);
	if (!err)
		err = extent_open(extent, detail);
	free(cpus);
	return err;
}

int sampler_open(struct sampler **out, const struct sampler_request *request, struct detail detail)
{
	struct sampler *sampler;
	int err = check(request, detail);

	*out = NULL;
	if (err)
		return err;
	sampler = calloc(1, sizeof(*sampler));
	if (!sampler)
		return -ENOMEM;
	sampler->request = request;
	sampler->counts_lost = counts_lost();
	sampler->clock_offset_ns = clock_offset_ns();
	sampler->extent = (struct extent){
		.way = &way,
		.ids = request->scope == SAMPLER_CPUS ? NULL : request->pids,
		.id_count = request->pid_count,
		.cpus = request->cpus,
		.cpu_count = request->cpu_count,
		.cgroup_fd = request->scope == SAMPLER_CPUS ? request->cgroup_fd : -1,
		.needs = event_count(request),
	};
	sampler->forms = calloc(request->event_count + 1, sizeof(*sampler->forms));
	for (size_t i = 0; i < request->event_count && sampler->forms; i++)
		sampler->forms[i] = sampler_form_of(&request->events[i]);
	err = sampler->forms ? open_extent(sampler, detail) : -ENOMEM;
	if (err) {
		sampler_close(sampler);
		return err;
	}
	*out = sampler;
	return 0;
}
