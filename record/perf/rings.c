/* SPDX-License-Identifier: MIT */
#include "record/perf/rings.h"

#include "arch/perf_registers.h"
#include "base/array.h"
#include "record/perf/cpus.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define REGISTERS 24u
#define SAMPLE_BYTES_MAX 512u /* with less room than that a ring counts as full */

uint64_t rings_sample_type(unsigned int flags)
{
	return PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
	       (flags & EVENT_NO_REGS ? 0 : PERF_SAMPLE_REGS_USER) |
	       (flags & EVENT_CALLERS ? PERF_SAMPLE_CALLCHAIN : 0);
}

/*
 * Each register costs the program some 60 ns at each hit, more than anything else in a record: so
 * no segments, nor the program counter, which is the record's anyhow. But in the kernel that is the
 * kernel's: the thread's is a register then.
 */
uint64_t rings_registers(unsigned int flags)
{
	if (flags & EVENT_NO_REGS)
		return 0;
	return flags & EVENT_KERNEL ? perf_registers_general | PERF_REGISTER_IP_BIT
				    : perf_registers_general;
}

static int ring_open(struct cpu_ring *ring, unsigned int cpu, uint32_t bytes)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.size = sizeof(attr),
		.disabled = 1,
		.exclude_kernel = 1,
		.sample_period = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd = syscall(SYS_perf_event_open, &attr, gettid(), (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	*ring = (struct cpu_ring){ .cpu = cpu, .fd = (int)fd, .bytes = bytes };
	if (fd < 0)
		return -errno;
	ring->memory = mmap(NULL, PAGE + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (ring->memory == MAP_FAILED) {
		ring->memory = NULL;
		return errno == EPERM ? -WM_E_MEMORY_LIMIT : -errno;
	}
	return ring_init(&ring->ring, ring->memory, (const uint8_t *)ring->memory + PAGE, bytes);
}

static void ring_close(struct cpu_ring *ring)
{
	ring_release(&ring->ring);
	if (ring->memory)
		munmap(ring->memory, PAGE + ring->bytes);
	if (ring->fd >= 0)
		close(ring->fd);
}

static int open_all(struct rings *rings, const unsigned int *cpus, size_t count, uint32_t bytes)
{
	int err = 0;

	rings->bytes = bytes;
	for (size_t i = 0; i < count && !err; i++)
		err = rings_open_cpu(rings, cpus[i]);
	return err;
}

uint64_t rings_locked_bytes(size_t count, uint32_t bytes)
{
	return (uint64_t)count * (PAGE + (bytes ? bytes : RINGS_LARGE_BYTES));
}

/*
 * Users have so much memory for them together (kernel.perf_event_mlock_kb for each CPU, and
 * RLIMIT_MEMLOCK), and may have others.
 */
int rings_open_on(struct rings *rings, const unsigned int *cpus, size_t count, uint32_t bytes,
		  uint32_t least)
{
	int err = open_all(rings, cpus, count, bytes ? bytes : RINGS_LARGE_BYTES);

	for (uint32_t less = RINGS_LARGE_BYTES / 2; !bytes && less >= least; less /= 2) {
		if (err != -WM_E_MEMORY_LIMIT)
			break;
		rings_release(rings);
		err = open_all(rings, cpus, count, less);
	}
	rings->least = bytes ? 0 : least;
	return err;
}

int rings_open(struct rings *rings, uint32_t bytes)
{
	unsigned int *cpus;
	size_t count;
	int err = cpus_present(&cpus, &count);

	if (!err)
		err = rings_open_on(rings, cpus, count, bytes, RINGS_SMALL_BYTES);
	free(cpus);
	return err;
}

uint64_t rings_memory(const struct rings *rings)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < rings->count; i++)
		bytes += rings_locked_bytes(1, rings->all[i].bytes);
	return bytes;
}

int rings_has(const struct rings *rings, unsigned int cpu)
{
	for (unsigned int i = 0; i < rings->count; i++)
		if (rings->all[i].cpu == cpu)
			return 1;
	return 0;
}

int rings_open_cpu(struct rings *rings, unsigned int cpu)
{
	uint32_t bytes = rings->bytes;
	struct cpu_ring ring;
	int err;

	if (rings_has(rings, cpu))
		return 0;
	if (array_grow(&rings->all, &rings->room, rings->count + 1, sizeof(*rings->all)))
		return -ENOMEM;
	do {
		err = ring_open(&ring, cpu, bytes);
		if (err)
			ring_close(&ring);
		bytes /= 2;
	} while (err == -WM_E_MEMORY_LIMIT && rings->least && bytes >= rings->least);
	if (!err)
		rings->all[rings->count++] = ring;
	return err;
}

void rings_close_cpu(struct rings *rings, unsigned int cpu)
{
	if (rings->count && rings->all[rings->count - 1].cpu == cpu)
		ring_close(&rings->all[--rings->count]);
}

void rings_release(struct rings *rings)
{
	for (unsigned int i = 0; i < rings->count; i++)
		ring_close(&rings->all[i]);
	free(rings->all);
	free(rings->ids);
	free(rings->pending);
	*rings = (struct rings){ 0 };
}

int rings_add(struct rings *rings, int fd, unsigned int source)
{
	uint64_t id;

	if (ioctl(fd, PERF_EVENT_IOC_ID, &id))
		return -errno;
	if (array_grow(&rings->ids, &rings->id_room, rings->id_count + 1, sizeof(*rings->ids)))
		return -ENOMEM;
	rings->ids[rings->id_count++] = (struct ring_id){ id, source };
	rings->has_new_ids = 1;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct ring_id *left = a, *right = b;

	return (left->id > right->id) - (left->id < right->id);
}

int rings_source(struct rings *rings, uint64_t id, unsigned int *source)
{
	struct ring_id key = { .id = id }, *found;

	if (rings->has_new_ids)
		qsort(rings->ids, rings->id_count, sizeof(*rings->ids), by_id);
	rings->has_new_ids = 0;
	found = rings->id_count ? bsearch(&key, rings->ids, rings->id_count, sizeof(key), by_id)
				: NULL;
	if (found)
		*source = found->source;
	return found != NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct event_record *left = a, *right = b;

	return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static uint64_t word(const uint8_t **at)
{
	uint64_t value;

	memcpy(&value, *at, sizeof(value));
	*at += sizeof(value);
	return value;
}

static void registers_read(struct event_record *record, const uint8_t *at, size_t bytes,
			   uint64_t registers)
{
	size_t need = 8 + 8 * (size_t)__builtin_popcountll(registers);

	record->has_regs = registers && bytes >= need && word(&at) == PERF_SAMPLE_REGS_ABI_64;
	for (unsigned int i = 0; i < REGISTERS; i++)
		record->regs[i] = record->has_regs && registers >> i & 1 ? word(&at) : 0;
	if (record->has_regs && !(registers & PERF_REGISTER_IP_BIT))
		record->regs[perf_register_ip] = record->ip;
}

/*
 * The instruction's own address comes first, and the kernel's marks are between. Returns the end;
 * NULL: it does not fit.
 */
static const uint8_t *callers_read(struct event_record *record, const uint8_t *at,
				   const uint8_t *end)
{
	uint64_t count, address;
	int is_first = 1;

	if (end - at < 8)
		return NULL;
	count = word(&at);
	if (count > (uint64_t)(end - at) / 8)
		return NULL;
	while (count--) {
		address = word(&at);
		if (address >= (uint64_t)PERF_CONTEXT_MAX)
			continue;
		if (!is_first && record->caller_count < EVENT_CALLERS_MAX)
			record->callers[record->caller_count++] = address;
		is_first = 0;
	}
	return at;
}

/*
 * Fields in the order that the kernel gives them (enum perf_event_type). 0: too short, or not one
 * of our events.
 */
static int sample_read(struct rings *rings, struct event_record *record,
		       const struct perf_event_header *header, const struct rings_form *form)
{
	const uint8_t *at = (const uint8_t *)(header + 1),
		      *end = at + header->size - sizeof(*header);
	uint64_t both;

	if ((size_t)(end - at) < (form->has_read ? 7u : 4u) * 8)
		return 0;
	if (!rings_source(rings, word(&at), &record->source))
		return 0;
	record->ip = word(&at);
	both = word(&at);
	record->pid = (pid_t)(uint32_t)both;
	record->tid = (pid_t)(both >> 32);
	record->time_ns = word(&at);
	record->is_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			    PERF_RECORD_MISC_KERNEL;
	at += form->has_read ? 24 : 0;
	record->caller_count = 0;
	if (form->has_callers)
		at = callers_read(record, at, end);
	if (!at)
		return 0;
	registers_read(record, at, (size_t)(end - at), form->registers);
	return 1;
}

/* Hits between these times may have found the ring full. A gap that is not over yet grows. */
static void gap_add(struct cpu_ring *ring, uint64_t from_ns, uint64_t to_ns)
{
	if (!ring->has_gap)
		ring->gap_from_ns = from_ns;
	if (!ring->has_gap || to_ns > ring->gap_to_ns)
		ring->gap_to_ns = to_ns;
	ring->has_gap = 1;
}

void rings_missed(struct rings *rings, unsigned int cpu, uint64_t from_ns, uint64_t to_ns)
{
	for (unsigned int i = 0; i < rings->count; i++)
		if (rings->all[i].cpu == cpu)
			gap_add(&rings->all[i], from_ns, to_ns);
}

int rings_after_loss(struct rings *rings, uint64_t time_ns)
{
	/* a record that comes too late, and the next: what was between is unknown */
	int is_late = time_ns < rings->handed_ns, is_after = is_late || rings->was_late;

	rings->was_late = is_late;
	if (!is_late)
		rings->handed_ns = time_ns;
	for (unsigned int i = 0; i < rings->count; i++) {
		struct cpu_ring *ring = &rings->all[i];

		if (!ring->has_gap || time_ns <= ring->gap_from_ns)
			continue;
		is_after = 1;
		ring->has_gap = time_ns <= ring->gap_to_ns;
	}
	return is_after;
}

/* pid, ppid, tid, ptid, time: a thread's are of one process. */
static int is_process_start(const struct perf_event_header *header)
{
	uint32_t of[2];

	if (header->type != PERF_RECORD_FORK || header->size < sizeof(*header) + sizeof(of))
		return 0;
	memcpy(of, header + 1, sizeof(of));
	return of[0] != of[1];
}

static int ring_read(struct rings *rings, struct cpu_ring *from, const struct rings_form *form)
{
	struct ring *ring = &from->ring;
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED);
	struct event_record *record;
	int has_lost = 0, was_full = head - ring->tail + SAMPLE_BYTES_MAX > ring->bytes;
	const struct perf_event_header *header;
	int got;

	while ((got = ring_next(ring, &header)) > 0) {
		if (header->type == PERF_RECORD_LOST && header->size >= sizeof(*header) + 16) {
			const uint8_t *at = (const uint8_t *)(header + 1) + 8;

			rings->lost += word(&at);
			has_lost = 1;
		}
		rings->forks += (uint64_t)is_process_start(header);
		if (header->type != PERF_RECORD_SAMPLE)
			continue;
		if (array_grow(&rings->pending, &rings->pending_room, rings->pending_count + 1,
			       sizeof(*rings->pending)))
			return -ENOMEM;
		if (!sample_read(rings, &rings->pending[rings->pending_count], header, form)) {
			rings->stray++;
			continue;
		}
		record = &rings->pending[rings->pending_count++];
		record->cpu = from->cpu;
		/* unless the gap was noted when the ring was read full */
		if (has_lost && from->last_ns > from->full_ns)
			gap_add(from, from->last_ns, record->time_ns);
		has_lost = 0;
		from->last_ns = record->time_ns;
	}
	if (was_full) {
		from->full_ns = ticks_monotonic_ns();
		gap_add(from, from->last_ns, from->full_ns);
	}
	return got == -EBADMSG ? 0 : got;
}

int rings_read(struct rings *rings, struct rings_form form, int is_last, size_t *settled)
{
	uint64_t until = ticks_monotonic_ns() - RINGS_SETTLE_NS;
	int err = 0;

	for (unsigned int i = 0; i < rings->count && !err; i++)
		err = ring_read(rings, &rings->all[i], &form);
	if (rings->pending_count)
		qsort(rings->pending, rings->pending_count, sizeof(*rings->pending), by_time);
	*settled = 0;
	while (*settled < rings->pending_count &&
	       (is_last || rings->pending[*settled].time_ns < until))
		++*settled;
	return err;
}

void rings_drop(struct rings *rings, size_t count)
{
	if (!count)
		return;
	rings->pending_count -= count;
	memmove(rings->pending, rings->pending + count,
		rings->pending_count * sizeof(*rings->pending));
}
