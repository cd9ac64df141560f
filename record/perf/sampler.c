/* SPDX-License-Identifier: MIT */
/*
 * Records of a sampler, read. Each ring has a lane, in which records are kept in order of time
 * until no earlier one can follow; the lanes are merged.
 */
#include "record/perf/sampler.h"

#include "base/array.h"
#include "record/perf/cpus.h"
#include "record/perf/sampler_own.h"
#include "target/process/ticks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_BYTES_MAX 512u /* with less room than that a ring counts as full */

void sampler_enable(struct sampler *sampler)
{
	extent_enable(&sampler->extent);
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
	return sampler->extent.ids ? look_for_cpus(sampler) : extent_follow(&sampler->extent);
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
	struct extent_value value;

	if (!sampler->counts_lost)
		return was_full ? lane_add_lost(lane, cpu, 1) : 0;
	for (size_t i = 0; i < sampler->extent.count; i++)
		if (sampler->extent.opened[i].cpu == (int)cpu &&
		    !extent_read(&sampler->extent.opened[i], &value))
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
	extent_close(&sampler->extent);
	rings_release(&sampler->rings);
	for (size_t i = 0; i < sampler->lane_count; i++) {
		free(sampler->lanes[i].held);
		free(sampler->lanes[i].bytes);
	}
	free(sampler->lanes);
	free(sampler->forms);
	free(sampler);
}
