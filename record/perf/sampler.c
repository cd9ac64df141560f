/* SPDX-License-Identifier: MIT */
/*
 * Records of a sampler, read. Each ring has a lane, in which records are kept in order of time
 * until no earlier one can follow; the lanes are merged.
 */
#include "record/perf/sampler.h"

#include "arch/perf_registers.h"
#include "base/array.h"
#include "base/number_file.h"
#include "record/perf/cpus.h"
#include "record/perf/extent.h"
#include "record/perf/perf_record.h"
#include "record/perf/refused.h"
#include "record/perf/rings.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

/* What every record has, so that each can be put in order before its event is known. */
#define SAMPLER_COMMON                                                                             \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |            \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

/*
 * Records of a sampler's events, taken apart. The layouts are those of
 * include/uapi/linux/perf_event.h, enum perf_event_type.
 */

/* The rest of a sample, which goes in words of 8 bytes. */
struct words {
	const uint8_t *at, *end;
	int is_short;
};

static const void *take_bytes(struct words *words, uint64_t bytes)
{
	const uint8_t *at = words->at;

	if (bytes > (uint64_t)(words->end - at)) {
		words->is_short = 1;
		words->at = words->end;
		return NULL;
	}
	words->at += bytes;
	return at;
}

static uint64_t word_read(struct words *words)
{
	const void *at = take_bytes(words, 8);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, sizeof(value));
	return value;
}

/* `count` elements that follow; NULL and 0 where they do not fit. */
static const void *take_array(struct words *words, size_t *count, uint64_t bytes)
{
	uint64_t claimed = word_read(words);

	if (claimed > (uint64_t)(words->end - words->at) / bytes) {
		words->is_short = 1;
		claimed = 0;
	}
	*count = claimed;
	return take_bytes(words, claimed * bytes);
}

static void take_raw(struct words *words, struct sampler_record *record)
{
	const uint8_t *at = take_bytes(words, 4);
	uint32_t bytes;

	if (!at)
		return;
	memcpy(&bytes, at, sizeof(bytes)); /* with it, a multiple of 8 */
	record->raw = take_bytes(words, bytes);
	record->raw_bytes = record->raw ? bytes : 0;
}

/* regs[]: NULL where they are not wanted. */
static void take_regs(struct words *words, uint64_t mask, uint64_t *abi, uint64_t *regs)
{
	*abi = word_read(words);
	if (*abi == PERF_SAMPLE_REGS_ABI_NONE)
		return;
	for (; mask; mask &= mask - 1)
		regs[__builtin_ctzll(mask) % SAMPLER_REGS_MAX] = word_read(words);
}

static void take_stack(struct words *words, struct sampler_record *record)
{
	uint64_t bytes = word_read(words), filled;

	if (!bytes)
		return;
	record->stack = take_bytes(words, bytes);
	filled = word_read(words);
	record->stack_bytes = record->stack && filled < bytes ? filled : bytes;
}

/* In the order of the kernel's perf_output_sample(). */
static int take_sample(struct sampler *sampler, const struct perf_event_header *header,
		       struct sampler_record *record)
{
	const uint8_t *begin = (const uint8_t *)(header + 1);
	struct words words = { begin, begin + header->size - sizeof(*header), 0 };
	unsigned int event;
	const struct sampler_form *form;
	uint64_t both;

	if (!rings_source(&sampler->rings, word_read(&words), &event) ||
	    event >= sampler->request->event_count)
		return -EBADMSG;
	form = &sampler->forms[event];
	record->kind = SAMPLER_SAMPLE;
	record->event = event;
	record->is_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			    PERF_RECORD_MISC_KERNEL;
	record->ip = word_read(&words);
	both = word_read(&words);
	record->pid = (pid_t)(uint32_t)both;
	record->tid = (pid_t)(both >> 32);
	record->time_ns = word_read(&words);
	if (form->sample_type & PERF_SAMPLE_ADDR)
		record->address = word_read(&words);
	record->cpu = (uint32_t)word_read(&words);
	record->period = form->sample_type & PERF_SAMPLE_PERIOD
				 ? word_read(&words)
				 : sampler->request->events[event].period;
	if (form->sample_type & PERF_SAMPLE_CALLCHAIN)
		record->callers = take_array(&words, &record->caller_count, 8);
	if (form->sample_type & PERF_SAMPLE_RAW)
		take_raw(&words, record);
	if (form->sample_type & PERF_SAMPLE_BRANCH_STACK)
		record->branches = take_array(&words, &record->branch_count,
					      sizeof(struct perf_branch_entry));
	if (form->sample_type & PERF_SAMPLE_REGS_USER)
		take_regs(&words, form->user_regs, &record->user_regs_abi, record->user_regs);
	if (form->sample_type & PERF_SAMPLE_STACK_USER)
		take_stack(&words, record);
	if (form->sample_type & PERF_SAMPLE_REGS_INTR)
		take_regs(&words, form->event_regs, &record->regs_abi, record->regs);
	if (form->user_regs & PERF_REGISTER_IP_BIT)
		record->user_ip = record->user_regs[perf_register_ip];
	return words.is_short ? -EBADMSG : 1;
}

static int take_other(struct sampler *sampler, const struct perf_record *from,
		      struct sampler_record *record)
{
	switch (from->type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		record->kind = from->misc & PERF_RECORD_MISC_SWITCH_OUT ? SAMPLER_DEPART
									: SAMPLER_ARRIVE;
		record->is_preempted = (from->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT) != 0;
		return 1;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		record->kind = SAMPLER_LOST;
		record->pid = record->tid = 0; /* who wrote the report */
		record->count = from->lost;
		return 1;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		if (!rings_source(&sampler->rings, from->id, &record->event))
			return -EBADMSG;
		record->kind = from->type == PERF_RECORD_THROTTLE ? SAMPLER_THROTTLED
								  : SAMPLER_UNTHROTTLED;
		return record->event < sampler->request->event_count;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		record->kind = SAMPLER_MMAP;
		return 1;
	case PERF_RECORD_COMM:
		record->kind = SAMPLER_COMM;
		record->is_exec = (from->misc & PERF_RECORD_MISC_COMM_EXEC) != 0;
		return 1;
	case PERF_RECORD_FORK:
		record->kind = SAMPLER_FORK;
		return 1;
	case PERF_RECORD_EXIT:
		record->kind = SAMPLER_EXIT;
		return 1;
	default:
		return 0;
	}
}

/*
 * Take a record apart: 1; 0: of no interest; -EBADMSG: too short, or of an unknown event. Its time
 * alone: 0, -EBADMSG.
 */
static int sampler_record_read(struct sampler *sampler, const struct perf_event_header *header,
			       struct sampler_record *record)
{
	struct perf_record from;

	memset(record, 0, sizeof(*record));
	if (header->type == PERF_RECORD_SAMPLE)
		return take_sample(sampler, header, record);
	if (perf_record_read(&from, header, SAMPLER_COMMON))
		return -EBADMSG;
	record->time_ns = from.time;
	record->cpu = from.cpu;
	record->pid = (pid_t)from.pid;
	record->tid = (pid_t)from.tid;
	record->ppid = (pid_t)from.ppid;
	record->ptid = (pid_t)from.ptid;
	record->start = from.start;
	record->bytes = from.bytes;
	record->offset = from.offset;
	if (from.build_id_bytes <= PERF_BUILD_ID_BYTES) {
		record->build_id = from.build_id;
		record->build_id_bytes = from.build_id_bytes;
	}
	record->text = from.text;
	return take_other(sampler, &from, record);
}

static int sampler_record_time(const struct perf_event_header *header, uint64_t *time_ns)
{
	const uint8_t *begin = (const uint8_t *)header;
	/* sample: identifier, ip, tid, time; others end in tid, time, CPU, identifier */
	size_t at = header->type == PERF_RECORD_SAMPLE ? sizeof(*header) + 24
						       : (size_t)header->size - 24;

	if (header->size < sizeof(*header) + 32)
		return -EBADMSG;
	memcpy(time_ns, begin + at, sizeof(*time_ns));
	return 0;
}

/*
 * A sampler's events, opened. The kernel maps no ring for an event that threads inherit and that is
 * not of one CPU; so a thread has each event on each CPU that is present, and all events of a CPU
 * write into the one ring of that CPU (rings.h).
 */

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
static int add(struct sampler *sampler, const struct instance *instance,
	       const struct cpu_ring *ring)
{
	int err = instance_to_ring(instance, ring->fd);

	if (!err)
		err = rings_add(&sampler->rings, instance->fd, instance->source);
	if (err)
		close(instance->fd);
	else
		extent_add(&sampler->extent, instance);
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
		err = add(sampler, &(struct instance){ fd, tid, cpu, i, 1 }, ring);
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
static void leave(struct extent *extent, const struct instance *opened)
{
	struct sampler *sampler = sampler_of(extent);
	struct instance_count value;

	if (!sampler->counts_lost || instance_read(opened, &value))
		return;
	for (unsigned int i = 0; i < sampler->lane_count; i++)
		if (sampler->rings.all[i].cpu == (unsigned int)opened->cpu)
			sampler->lanes[i].lost_counted += value.third;
}

static const struct extent_way way = { .open = open_all, .leave = leave };

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
#define RECORD_BYTES_MAX 512u /* with less room than that a ring counts as full */

void sampler_enable(struct sampler *sampler)
{
	extent_enable(&sampler->extent);
	extent_resume(&sampler->extent);
}

int sampler_join(struct sampler *sampler, const pid_t *pid, struct detail detail)
{
	return extent_join(&sampler->extent, pid, detail);
}

void sampler_part(struct sampler *sampler)
{
	extent_part(&sampler->extent);
}

void sampler_disable(struct sampler *sampler)
{
	extent_disable(&sampler->extent);
}

/* A thread has its events on the CPUs that were present then; CPUs that came later lack them. */
static int look_for_cpus(struct sampler *sampler)
{
	unsigned int *cpus;
	size_t count;
	int err = cpus_present(&cpus, &count);

	for (size_t i = 0; i < count && !err; i++)
		sampler->extent.is_doubtful |= !rings_has(&sampler->rings, cpus[i]);
	free(cpus);
	return err;
}

int sampler_follow(struct sampler *sampler)
{
	if (!sampler->extent.is_enabled)
		return 0;
	return sampler->extent.ids ? look_for_cpus(sampler)
				   : extent_follow(&sampler->extent, (struct detail){ 0 });
}

/* ---- lanes ---- */

static const struct perf_event_header *header_of(const struct sampler_lane *lane, size_t which)
{
	return (const struct perf_event_header *)(const void *)(lane->bytes + lane->held[which].at);
}

/* Forget what was handed over, once it is half of all. */
static void lane_compact(struct sampler_lane *lane)
{
	size_t left = lane->count - lane->first, from = lane->used;

	if (lane->first < left)
		return;
	for (size_t i = lane->first; i < lane->count; i++)
		from = lane->held[i].at < from ? lane->held[i].at : from;
	if (lane->used > from)
		memmove(lane->bytes, lane->bytes + from, lane->used - from);
	lane->used -= from;
	if (left)
		memmove(lane->held, lane->held + lane->first, left * sizeof(*lane->held));
	lane->first = 0;
	lane->count = left;
	for (size_t i = 0; i < left; i++)
		lane->held[i].at -= from;
}

/* In its place by time, behind others of the same. */
static int lane_add(struct sampler_lane *lane, const struct perf_event_header *header,
		    uint64_t time_ns)
{
	size_t bytes = (header->size + 7u) & ~(size_t)7, place = lane->count;

	if (array_grow(&lane->held, &lane->room, lane->count + 1, sizeof(*lane->held)) ||
	    array_grow(&lane->bytes, &lane->bytes_room, lane->used + bytes, 1))
		return -ENOMEM;
	memcpy(lane->bytes + lane->used, header, header->size);
	for (; place > lane->first && lane->held[place - 1].time_ns > time_ns; place--)
		lane->held[place] = lane->held[place - 1];
	lane->held[place] = (struct sampler_held){ time_ns, lane->used };
	lane->count++;
	lane->used += bytes;
	return 0;
}

/* As the kernel reports it. They are older than now, and how old is unknown. */
static int lane_add_lost(struct sampler_lane *lane, unsigned int cpu, uint64_t count)
{
	uint64_t now_ns = ticks_monotonic_ns();
	const struct {
		struct perf_event_header header;
		uint64_t id, lost;
		uint32_t pid, tid;
		uint64_t time;
		uint32_t cpu, reserved;
		uint64_t identifier;
	} record = {
		.header = { .type = PERF_RECORD_LOST, .size = sizeof(record) },
		.lost = count,
		.time = now_ns,
		.cpu = cpu,
	};

	return lane_add(lane, &record.header, now_ns);
}

static uint64_t lost_of(const struct perf_event_header *header)
{
	uint64_t words[2] = { 0 };

	if (header->type == PERF_RECORD_LOST && header->size >= sizeof(*header) + sizeof(words))
		memcpy(words, header + 1, sizeof(words));
	return words[1];
}

/*
 * What the ring has, but not what comes meanwhile: that might be without end, as when reading is
 * recorded. Damaged records, and those without a time, are lost.
 */
static int lane_fill(struct sampler *sampler, unsigned int which, uint64_t head)
{
	struct cpu_ring *from = &sampler->rings.all[which];
	struct sampler_lane *lane = &sampler->lanes[which];
	const struct perf_event_header *header;
	uint64_t time_ns;
	int got, err;

	while (from->ring.tail != head && (got = ring_next(&from->ring, &header)) != 0) {
		if (got < 0 || sampler_record_time(header, &time_ns)) {
			err = lane_add_lost(lane, from->cpu, 1);
			if (got < 0) /* all that was there is dropped */
				return err;
		} else {
			lane->lost_reported += lost_of(header);
			err = lane_add(lane, header, time_ns + sampler->clock_offset_ns);
		}
		if (err)
			return err;
	}
	return 0;
}

/*
 * The kernel reports what it lost with the next record that has room, and the last may have none.
 * Before Linux 6.0 it does not say how many these are: one, where a ring was found full.
 */
static int add_last_lost(struct sampler *sampler, unsigned int which, int was_full)
{
	unsigned int cpu = sampler->rings.all[which].cpu;
	struct sampler_lane *lane = &sampler->lanes[which];
	uint64_t lost = lane->lost_counted;
	struct instance_count value;

	if (!sampler->counts_lost)
		return was_full ? lane_add_lost(lane, cpu, 1) : 0;
	for (size_t i = 0; i < sampler->extent.count; i++)
		if (sampler->extent.opened[i].cpu == (int)cpu &&
		    !instance_read(&sampler->extent.opened[i], &value))
			lost += value.third;
	return lost > lane->lost_reported ? lane_add_lost(lane, cpu, lost - lane->lost_reported)
					  : 0;
}

static int fill_all(struct sampler *sampler, int is_last)
{
	struct rings *rings = &sampler->rings;
	int is_counting = is_last && !sampler->is_last_counted, err = 0;

	if (array_grow(&sampler->lanes, &sampler->lane_room, rings->count, sizeof(*sampler->lanes)))
		return -ENOMEM;
	for (; sampler->lane_count < rings->count; sampler->lane_count++)
		sampler->lanes[sampler->lane_count] = (struct sampler_lane){ 0 };
	for (unsigned int i = 0; i < rings->count && !err; i++) {
		const struct ring *ring = &rings->all[i].ring;
		uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED);
		int was_full = head - ring->tail + RECORD_BYTES_MAX > ring->bytes;

		err = lane_fill(sampler, i, head);
		if (!err && is_counting)
			err = add_last_lost(sampler, i, was_full);
	}
	sampler->is_last_counted |= is_last;
	return err;
}

/* ---- merged ---- */

static int hand_over(struct sampler *sampler, const struct perf_event_header *header,
		     unsigned int cpu, uint64_t time_ns,
		     int (*take)(const struct sampler_record *record, void *data), void *data)
{
	struct sampler_record record;
	int got = sampler_record_read(sampler, header, &record);

	if (!got)
		return 0;
	if (got < 0)
		record = (struct sampler_record){
			.kind = SAMPLER_LOST, .cpu = cpu, .time_ns = time_ns, .count = 1
		};
	record.cpu = cpu; /* the ring's is not to be mistaken */
	record.time_ns = time_ns;
	sampler->lost += record.kind == SAMPLER_LOST ? record.count : 0;
	sampler->throttled += record.kind == SAMPLER_THROTTLED;
	return take(&record, data);
}

/* The lane with the earliest record, and until when it is that. NULL: no lane has one. */
static struct sampler_lane *earliest(const struct sampler *sampler, unsigned int *which,
				     uint64_t *until_ns)
{
	struct sampler_lane *best = NULL;
	uint64_t best_ns = UINT64_MAX;

	*until_ns = UINT64_MAX;
	for (unsigned int i = 0; i < sampler->lane_count; i++) {
		struct sampler_lane *lane = &sampler->lanes[i];
		uint64_t time_ns;

		if (lane->first == lane->count)
			continue;
		time_ns = lane->held[lane->first].time_ns;
		if (!best || time_ns < best_ns) {
			*until_ns = best ? best_ns : *until_ns;
			best = lane;
			best_ns = time_ns;
			*which = i;
		} else if (time_ns < *until_ns) {
			*until_ns = time_ns;
		}
	}
	return best;
}

int sampler_read(struct sampler *sampler, int is_last,
		 int (*take)(const struct sampler_record *record, void *data), void *data)
{
	uint64_t settled_ns = is_last ? UINT64_MAX : ticks_monotonic_ns() - RINGS_SETTLE_NS;
	struct sampler_lane *lane;
	unsigned int which;
	uint64_t until_ns;
	int err = fill_all(sampler, is_last);

	while (!err && (lane = earliest(sampler, &which, &until_ns))) {
		if (lane->held[lane->first].time_ns > settled_ns)
			break;
		until_ns = until_ns < settled_ns ? until_ns : settled_ns;
		while (!err && lane->first < lane->count &&
		       lane->held[lane->first].time_ns <= until_ns) {
			size_t at = lane->first++;

			err = hand_over(sampler, header_of(lane, at), sampler->rings.all[which].cpu,
					lane->held[at].time_ns, take, data);
		}
		lane_compact(lane);
	}
	return err;
}

/* ---- */

void sampler_covered(const struct sampler *sampler, struct sampler_coverage *coverage)
{
	const struct extent *extent = &sampler->extent;

	*coverage = (struct sampler_coverage){
		.threads = extent->thread_count,
		.cpus = extent->ids ? sampler->rings.count : (unsigned int)extent->place_count,
		.cpus_back = extent->cpus_back,
		.lost = sampler->lost,
		.throttled = sampler->throttled,
		.ring_bytes = sampler->rings.bytes,
		.locked_bytes = rings_memory(&sampler->rings),
		.is_doubtful = extent->is_doubtful,
	};
	for (size_t i = 0; i < sampler->request->event_count; i++)
		coverage->excludes_kernel |= sampler->forms[i].excludes_kernel;
}

void sampler_close(struct sampler *sampler)
{
	if (!sampler)
		return;
	extent_release(&sampler->extent);
	rings_release(&sampler->rings);
	for (size_t i = 0; i < sampler->lane_count; i++) {
		free(sampler->lanes[i].held);
		free(sampler->lanes[i].bytes);
	}
	free(sampler->lanes);
	free(sampler->forms);
	free(sampler);
}
