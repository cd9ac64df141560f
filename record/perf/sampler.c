/* SPDX-License-Identifier: MIT */
/* Records of a sampler's events, read; and the events, opened. */
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
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define SAMPLER_COMMON (RINGS_COMMON | PERF_SAMPLE_PERIOD)

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
int sampler_sample_read(const struct perf_event_header *header, const struct sampler_form *form,
			struct sampler_record *record)
{
	const uint8_t *begin = (const uint8_t *)(header + 1);
	struct words words = { begin, begin + header->size - sizeof(*header), 0 };
	uint64_t both;

	*record = (struct sampler_record){ .kind = SAMPLER_SAMPLE };
	record->is_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			    PERF_RECORD_MISC_KERNEL;
	word_read(&words); /* the event's number */
	record->ip = word_read(&words);
	both = word_read(&words);
	record->pid = (pid_t)(uint32_t)both;
	record->tid = (pid_t)(both >> 32);
	record->time_ns = word_read(&words);
	if (form->sample_type & PERF_SAMPLE_ADDR)
		record->address = word_read(&words);
	record->cpu = (uint32_t)word_read(&words);
	if (form->sample_type & PERF_SAMPLE_PERIOD)
		record->period = word_read(&words);
	if (form->sample_type & PERF_SAMPLE_READ)
		take_bytes(&words, sizeof(struct instance_count));
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

static int take_sample(struct sampler *sampler, const struct perf_event_header *header,
		       struct sampler_record *record)
{
	const struct sampler_event *events = sampler->request->events;
	unsigned int event;
	int got;

	if (!rings_sample_source(&sampler->rings, header, &event) ||
	    event >= sampler->request->event_count)
		return -EBADMSG;
	got = sampler_sample_read(header, &sampler->forms[event], record);
	record->event = event;
	if (!(sampler->forms[event].sample_type & PERF_SAMPLE_PERIOD))
		record->period = events[event].period;
	return got;
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
 * Take a record apart: 1; 0: of no interest; -EBADMSG: too short, or of an unknown event.
 */
static int sampler_record_read(struct sampler *sampler, const struct perf_event_header *header,
			       struct sampler_record *record)
{
	struct perf_record from;

	if (header->type == PERF_RECORD_SAMPLE)
		return take_sample(sampler, header, record);
	memset(record, 0, sizeof(*record));
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
	if (error == -EINVAL && event->filter)
		return detail_set(detail, -WM_E_SPEC, "%s: the kernel can't test \"%s\"",
				  event->what.name, event->filter);
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
		return instance_open_attr(&attr, tid, cpu, -1, sampler->request->cgroup_fd);
	}
	attr = event_attr(sampler, which);
	fd = instance_open_attr(&attr, tid, cpu, -1, sampler->request->cgroup_fd);
	if ((fd != -EACCES && fd != -EPERM) || attr.exclude_kernel || event->what.has_modifiers ||
	    tid < 0 || !has_user_part(event))
		return fd;
	sampler->forms[which].excludes_kernel = 1;
	attr = event_attr(sampler, which);
	fd = instance_open_attr(&attr, tid, cpu, -1, sampler->request->cgroup_fd);
	if (fd < 0)
		sampler->forms[which].excludes_kernel = 0;
	return fd;
}

/* Events that threads inherit have it too: perf_tp_filter_match(). */
static int open_filtered(struct sampler *sampler, unsigned int which, pid_t tid, int cpu)
{
	const struct sampler_request *request = sampler->request;
	const char *filter = which < request->event_count ? request->events[which].filter : NULL;
	int fd = open_event(sampler, which, tid, cpu), err;

	if (fd < 0 || !filter || !ioctl(fd, PERF_EVENT_IOC_SET_FILTER, filter))
		return fd;
	err = -errno;
	close(fd);
	return err;
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
		int fd = open_filtered(sampler, i, tid, cpu), err;

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
	for (unsigned int i = 0; i < sampler->rings.count; i++)
		if (sampler->rings.all[i].cpu == (unsigned int)opened->cpu)
			sampler->rings.all[i].lost_counted += value.third;
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
	int fd = instance_open_attr(&attr, 0, -1, -1, -1);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
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

/*
 * The kernel reports what it lost with the next record that has room, and the last may have none.
 * Before Linux 6.0 it does not say how many these are: one, where a ring was found full.
 */
static int add_last_lost(struct sampler *sampler, struct cpu_ring *ring)
{
	uint64_t lost = ring->lost_counted;
	struct instance_count value;

	if (!sampler->counts_lost)
		return ring->was_full ? rings_add_lost(ring, 1) : 0;
	for (size_t i = 0; i < sampler->extent.count; i++)
		if (sampler->extent.opened[i].cpu == (int)ring->cpu &&
		    !instance_read(&sampler->extent.opened[i], &value))
			lost += value.third;
	return lost > ring->lost_reported ? rings_add_lost(ring, lost - ring->lost_reported) : 0;
}

struct reading {
	struct sampler *sampler;
	int (*take)(const struct sampler_record *record, void *data);
	void *data;
};

static int hand_over(void *data, const struct perf_event_header *header, unsigned int cpu,
		     uint64_t time_ns)
{
	struct reading *reading = data;
	struct sampler *sampler = reading->sampler;
	struct sampler_record record;
	int got = sampler_record_read(sampler, header, &record);

	if (!got)
		return 0;
	if (got < 0)
		record = (struct sampler_record){ .kind = SAMPLER_LOST, .count = 1 };
	record.cpu = cpu; /* the ring's is not to be mistaken */
	record.time_ns = time_ns;
	sampler->lost += record.kind == SAMPLER_LOST ? record.count : 0;
	sampler->throttled += record.kind == SAMPLER_THROTTLED;
	return reading->take(&record, reading->data);
}

int sampler_read(struct sampler *sampler, int is_last,
		 int (*take)(const struct sampler_record *record, void *data), void *data)
{
	struct reading reading = { sampler, take, data };
	int err = rings_fill(&sampler->rings);

	for (unsigned int i = 0; i < sampler->rings.count && !err; i++)
		if (is_last && !sampler->is_last_counted)
			err = add_last_lost(sampler, &sampler->rings.all[i]);
	sampler->is_last_counted |= is_last;
	return err ? err : rings_hand_over(&sampler->rings, is_last, hand_over, &reading);
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
	free(sampler->forms);
	free(sampler);
}
