/* SPDX-License-Identifier: MIT */
#include "record/perf/rings.h"

#include "arch/perf_registers.h"
#include "base/array.h"
#include "base/sorted.h"
#include "record/perf/cpus.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <waymark/error.h>

#define PAGE 4096u
#define RECORD_BYTES_MAX 512u /* with less room than that a ring counts as full */

uint64_t rings_sample_type(unsigned int flags)
{
	return RINGS_COMMON | (flags & EVENT_NO_REGS ? 0 : PERF_SAMPLE_REGS_USER) |
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
	free(ring->held);
	free(ring->records);
	if (ring->memory)
		munmap(ring->memory, PAGE + ring->bytes);
	if (ring->fd >= 0)
		close(ring->fd);
}

static int open_all(struct rings *rings, const unsigned int *cpus, size_t count, uint32_t bytes)
{
	int err = 0;

	rings->bytes = bytes;
	rings->clock_offset_ns = clock_offset_ns();
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

int rings_source(struct rings *rings, uint64_t id, unsigned int *source)
{
	size_t at;

	if (rings->has_new_ids)
		sorted_make(rings->ids, rings->id_count, sizeof(*rings->ids));
	rings->has_new_ids = 0;
	at = sorted_below(rings->ids, rings->id_count, sizeof(*rings->ids), 0, id);
	if (at == rings->id_count || rings->ids[at].id != id)
		return 0;
	*source = rings->ids[at].source;
	return 1;
}

int rings_sample_source(struct rings *rings, const struct perf_event_header *header,
			unsigned int *source)
{
	uint64_t id;

	if (header->size < sizeof(*header) + sizeof(id))
		return 0;
	memcpy(&id, header + 1, sizeof(id));
	return rings_source(rings, id, source);
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

/*
 * ---- records, in order of time ----
 *
 * Each ring's records are kept in order of time until no earlier one can follow; then the rings are
 * merged.
 */

static int record_time(const struct perf_event_header *header, uint64_t *time_ns)
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

static const struct perf_event_header *header_of(const struct cpu_ring *ring, size_t which)
{
	return (const struct perf_event_header *)(const void *)(ring->records +
								ring->held[which].at);
}

/* Forget what was handed over, once it is half of all. */
static void ring_compact(struct cpu_ring *ring)
{
	size_t left = ring->count - ring->first, from = ring->used;

	if (ring->first < left)
		return;
	for (size_t i = ring->first; i < ring->count; i++)
		from = ring->held[i].at < from ? ring->held[i].at : from;
	if (ring->used > from)
		memmove(ring->records, ring->records + from, ring->used - from);
	ring->used -= from;
	if (left)
		memmove(ring->held, ring->held + ring->first, left * sizeof(*ring->held));
	ring->first = 0;
	ring->count = left;
	for (size_t i = 0; i < left; i++)
		ring->held[i].at -= from;
}

/* In its place by time, behind others of the same. */
static int ring_add(struct cpu_ring *ring, const struct perf_event_header *header, uint64_t time_ns)
{
	size_t bytes = (header->size + 7u) & ~(size_t)7, place = ring->count;

	if (array_grow(&ring->held, &ring->held_room, ring->count + 1, sizeof(*ring->held)) ||
	    array_grow(&ring->records, &ring->records_room, ring->used + bytes, 1))
		return -ENOMEM;
	memcpy(ring->records + ring->used, header, header->size);
	for (; place > ring->first && ring->held[place - 1].time_ns > time_ns; place--)
		ring->held[place] = ring->held[place - 1];
	ring->held[place] = (struct rings_held){ time_ns, ring->used };
	ring->count++;
	ring->used += bytes;
	return 0;
}

/* As the kernel reports it. They are older than now, and how old is unknown. */
int rings_add_lost(struct cpu_ring *ring, uint64_t count)
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
		.cpu = ring->cpu,
	};

	return ring_add(ring, &record.header, now_ns);
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
static int ring_fill(struct rings *rings, struct cpu_ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->ring.page->data_head, __ATOMIC_RELAXED), time_ns;
	const struct perf_event_header *header;
	int has_lost = 0, got, err = 0;

	ring->was_full = head - ring->ring.tail + RECORD_BYTES_MAX > ring->ring.bytes;
	while (!err && ring->ring.tail != head && (got = ring_next(&ring->ring, &header)) != 0) {
		if (got < 0 || record_time(header, &time_ns)) {
			err = rings_add_lost(ring, 1);
			if (got < 0) /* all that was there is dropped */
				break;
			continue;
		}
		time_ns += rings->clock_offset_ns;
		has_lost |= lost_of(header) != 0;
		ring->lost_reported += lost_of(header);
		err = ring_add(ring, header, time_ns);
		if (header->type != PERF_RECORD_SAMPLE)
			continue;
		/* unless the gap was noted when the ring was read full */
		if (has_lost && ring->last_ns > ring->full_ns)
			gap_add(ring, ring->last_ns, time_ns);
		has_lost = 0;
		ring->last_ns = time_ns;
	}
	if (ring->was_full) {
		ring->full_ns = ticks_monotonic_ns();
		gap_add(ring, ring->last_ns, ring->full_ns);
	}
	return err;
}

int rings_fill(struct rings *rings)
{
	int err = 0;

	for (unsigned int i = 0; i < rings->count && !err; i++)
		err = ring_fill(rings, &rings->all[i]);
	return err;
}

size_t rings_pending(const struct rings *rings)
{
	size_t pending = 0;

	for (unsigned int i = 0; i < rings->count; i++)
		pending += rings->all[i].count - rings->all[i].first;
	return pending;
}

/* The ring with the earliest record, and until when it is that. NULL: none has one. */
static struct cpu_ring *earliest(const struct rings *rings, uint64_t *until_ns)
{
	struct cpu_ring *best = NULL;
	uint64_t best_ns = UINT64_MAX;

	*until_ns = UINT64_MAX;
	for (unsigned int i = 0; i < rings->count; i++) {
		struct cpu_ring *ring = &rings->all[i];
		uint64_t time_ns;

		if (ring->first == ring->count)
			continue;
		time_ns = ring->held[ring->first].time_ns;
		if (!best || time_ns < best_ns) {
			*until_ns = best ? best_ns : *until_ns;
			best = ring;
			best_ns = time_ns;
		} else if (time_ns < *until_ns) {
			*until_ns = time_ns;
		}
	}
	return best;
}

int rings_hand_over(struct rings *rings, int is_last,
		    int (*take)(void *data, const struct perf_event_header *record,
				unsigned int cpu, uint64_t time_ns),
		    void *data)
{
	uint64_t settled_ns = is_last ? UINT64_MAX : ticks_monotonic_ns() - RINGS_SETTLE_NS;
	struct cpu_ring *ring;
	uint64_t until_ns;
	int err = 0;

	while (!err && (ring = earliest(rings, &until_ns))) {
		if (ring->held[ring->first].time_ns > settled_ns)
			break;
		until_ns = until_ns < settled_ns ? until_ns : settled_ns;
		while (!err && ring->first < ring->count &&
		       ring->held[ring->first].time_ns <= until_ns) {
			size_t at = ring->first++;

			err = take(data, header_of(ring, at), ring->cpu, ring->held[at].time_ns);
		}
		ring_compact(ring);
	}
	return err;
}
