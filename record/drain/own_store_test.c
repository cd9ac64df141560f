/* SPDX-License-Identifier: MIT */
#include "record/drain/drain.h"
#include "record/drain/own_store.h"
#include "target/process/ticks.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#define FIELD_BYTES 8
#define EVENT_BYTES (EVENT_EXTENDED_BYTES + FIELD_BYTES)

/* What the sink received. Values and times of each thread must increase. */
static struct {
	uint64_t count, wrong, bytes;
	uint64_t last[65536], last_ticks[65536];
	struct wm_packet head;
} out;

static int see(struct drain_packet *packet, void *data)
{
	const unsigned char *at = packet->content;
	uint32_t tid = packet->head->tid % 65536;

	(void)data;
	out.head = *packet->head;
	for (size_t i = 0; i < packet->bytes / EVENT_BYTES; i++, at += EVENT_BYTES) {
		uint64_t value, ticks;

		memcpy(&ticks, at + 5, 8);
		memcpy(&value, at + EVENT_EXTENDED_BYTES, 8);
		out.wrong += at[0] != EVENT_EXTENDED || value <= out.last[tid] ||
			     ticks < out.last_ticks[tid] || ticks < packet->head->begin_ticks ||
			     ticks > packet->head->end_ticks;
		out.last[tid] = value;
		out.last_ticks[tid] = ticks;
		out.count++;
	}
	out.wrong += packet->bytes % EVENT_BYTES != 0;
	return 0;
}

static const struct drain_sink sink = { see, NULL };
static struct own_store *store;
static struct drain *drain;

static void make(uint64_t bytes, enum store_policy policy)
{
	memset(&out, 0, sizeof(out));
	cr_assert_eq(own_store_new(&store, getpid(), bytes, policy), 0);
	cr_assert_eq(drain_new(&drain, own_store_fd(store), (uint32_t)getpid()), 0);
}

static void take(enum drain_reach reach)
{
	drain_scan(drain, reach);
	cr_assert_geq(drain_take(drain, &sink), 0);
}

/* The counts after the last pass. */
static struct drain_counts finish(void)
{
	struct drain_counts counts;

	take(DRAIN_ALL);
	cr_assert_geq(drain_finish(drain, &sink), 0);
	drain_count(drain, &counts);
	drain_free(drain);
	own_store_free(store);
	return counts;
}

static void write_one(pid_t tid, uint64_t time_ns, uint64_t value)
{
	own_store_write(store, tid, time_ns, EVENT_EXTENDED, &value, sizeof(value));
}

Test(own_store, write_then_drain_keeps_order)
{
	struct drain_counts counts;

	make(1 << 20, STORE_DISCARD);
	for (uint64_t i = 1; i <= 50000; i++) {
		write_one(100, 1000 + i, i);
		if (i % 10 == 0)
			write_one(101, 1000 + i, i);
		if (i % 1000 == 0)
			take(DRAIN_READY);
	}
	counts = finish();
	cr_assert_eq(out.count, 55000);
	cr_assert_eq(out.wrong, 0);
	cr_assert_eq(counts.recorded, 55000);
	cr_assert_eq(counts.discarded, 0);
	cr_assert_eq(counts.damaged, 0);
}

static struct {
	uint32_t bytes[8], count;
	uint32_t tid;
	char comm[16];
} seen;

/* The sizes of three events' headers, by what is in front of each. */
static int see_heads(struct drain_packet *packet, void *data)
{
	const unsigned char *at = packet->content, *end = at + packet->bytes;

	(void)data;
	seen.tid = packet->head->tid;
	memcpy(seen.comm, packet->head->comm, sizeof(seen.comm));
	while (at < end && seen.count < 8) {
		seen.bytes[seen.count] = (*at & 31) == EVENT_EXTENDED ? EVENT_EXTENDED_BYTES
								      : EVENT_COMPACT_BYTES;
		at += seen.bytes[seen.count++] + FIELD_BYTES;
	}
	cr_assert_eq(at, end);
	return 0;
}

static void take_heads(void)
{
	static const struct drain_sink heads = { see_heads, NULL };

	memset(&seen, 0, sizeof(seen));
	drain_scan(drain, DRAIN_ALL);
	cr_assert_geq(drain_take(drain, &heads), 0);
	drain_free(drain);
	own_store_free(store);
}

Test(own_store, headers_are_compact_where_the_time_allows)
{
	const uint64_t fits_ns = (UINT64_C(1000000000) << EVENT_TICK_BITS) /
				 ticks_hz(STORE_CLOCK_TSC);
	uint64_t value = 1, time_ns = ticks_monotonic_ns() - 10 * fits_ns;

	make(1 << 20, STORE_DISCARD);
	own_store_write(store, 100, time_ns, 30, &value, sizeof(value));
	own_store_write(store, 100, time_ns += fits_ns * 9 / 10, 1, &value, sizeof(value));
	own_store_write(store, 100, time_ns += fits_ns * 11 / 10, 1, &value, sizeof(value));
	own_store_write(store, 100, time_ns + 1, 31, &value, sizeof(value));
	take_heads();
	cr_assert_eq(seen.count, 4);
	cr_assert_eq(seen.bytes[0], EVENT_COMPACT_BYTES);
	cr_assert_eq(seen.bytes[1], EVENT_COMPACT_BYTES);
	cr_assert_eq(seen.bytes[2], EVENT_EXTENDED_BYTES);
	cr_assert_eq(seen.bytes[3], EVENT_EXTENDED_BYTES);
}

Test(own_store, of_the_kernel_has_lanes_of_cpus)
{
	uint64_t value = 1;

	memset(&out, 0, sizeof(out));
	cr_assert_eq(own_store_new(&store, 0, 1 << 20, STORE_DISCARD), 0);
	cr_assert_eq(drain_new(&drain, own_store_fd(store), 0), 0);
	own_store_write(store, OWN_STORE_CPU(0), 1000, 1, &value, sizeof(value));
	take_heads();
	cr_assert_eq(seen.tid, 0);
	cr_assert_str_eq(seen.comm, "cpu0");
	cr_assert_eq(own_store_new(&store, 0, 1 << 20, STORE_DISCARD), 0);
	cr_assert_eq(drain_new(&drain, own_store_fd(store), 0), 0);
	own_store_write(store, OWN_STORE_NO_CPU, 1000, 1, &value, sizeof(value));
	take_heads();
	cr_assert_eq(seen.tid, UINT32_MAX);
	cr_assert_str_eq(seen.comm, "cpus");
}

Test(own_store, losses_of_a_cpu_are_in_its_packets)
{
	struct drain_counts counts;
	uint64_t value = 1;

	memset(&out, 0, sizeof(out));
	cr_assert_eq(own_store_new(&store, 0, 1 << 20, STORE_DISCARD), 0);
	cr_assert_eq(drain_new(&drain, own_store_fd(store), 0), 0);
	own_store_write(store, OWN_STORE_CPU_APART(3), 1000, 1, &value, sizeof(value));
	own_store_lose(store, OWN_STORE_CPU_APART(3), 7);
	counts = finish();
	cr_assert_eq(counts.discarded, 7);
	cr_assert_eq(out.head.tid, 3);
	cr_assert_str_eq(out.head.comm, "cpu3 wakes");
	cr_assert_eq(out.head.discarded, 7);
}

Test(own_store, write_with_earlier_time_takes_last_time)
{
	make(1 << 20, STORE_DISCARD);
	write_one(100, 2000, 1);
	write_one(100, 1500, 2);
	finish();
	cr_assert_eq(out.count, 2);
	cr_assert_eq(out.wrong, 0);
	cr_assert_eq(out.last_ticks[100], out.head.begin_ticks);
}

Test(own_store, write_without_room_counts_as_lost)
{
	struct drain_counts counts;

	make(1, STORE_BLOCK);
	for (uint64_t i = 1; i <= 100000; i++)
		write_one(100, i, i);
	own_store_lose(store, 0, 7);
	counts = finish();
	cr_assert_lt(out.count, 100000);
	cr_assert_gt(out.count, 1000);
	cr_assert_eq(out.wrong, 0);
	cr_assert_eq(counts.recorded, out.count);
	cr_assert_eq(counts.discarded, 100000 - out.count + 7);
	cr_assert_eq(counts.crowded_out, 100000 - out.count);
}

Test(own_store, cyclic_store_has_newest_events)
{
	struct drain_counts counts;

	make(1, STORE_CYCLIC);
	for (uint64_t i = 1; i <= 100000; i++)
		write_one(100, i, i);
	counts = finish();
	cr_assert_lt(out.count, 100000);
	cr_assert_gt(out.count, 1000);
	cr_assert_eq(out.wrong, 0);
	cr_assert_eq(out.last[100], 100000);
	cr_assert_eq(counts.recorded + counts.discarded, 100000);
}

Test(own_store, write_from_more_threads_than_lanes_loses_none_uncounted)
{
	struct drain_counts counts;

	make(160 << 20, STORE_DISCARD);
	for (uint64_t i = 1; i <= 3; i++) {
		for (pid_t tid = 1; tid <= 9000; tid++)
			write_one(tid, i, i);
		take(DRAIN_READY);
	}
	counts = finish();
	cr_assert_eq(out.wrong, 0);
	cr_assert_eq(counts.recorded, out.count);
	cr_assert_eq(out.count + counts.discarded, 27000);
	cr_assert_gt(out.count, 20000);
}

Test(own_store, write_from_more_threads_than_pages_loses_none_that_is_drained)
{
	make(1, STORE_DISCARD);
	for (pid_t tid = 1; tid <= 1000; tid++) {
		write_one(tid, (uint64_t)tid, 1);
		take(DRAIN_READY);
	}
	cr_assert_eq(finish().discarded, 0);
	cr_assert_eq(out.count, 1000);
}

Test(own_store, cyclic_store_has_newest_threads)
{
	make(1, STORE_CYCLIC);
	for (pid_t tid = 1; tid <= 1000; tid++)
		write_one(tid, (uint64_t)tid, 1);
	finish();
	cr_assert_eq(out.last[1], 0);
	cr_assert_eq(out.last[1000], 1);
}
