/* SPDX-License-Identifier: MIT */
#include "inside/store/clock.h"

#include "inside/store/thread_writer.h"

#include <sys/syscall.h>
#include <time.h>

/*
 * Two anchors, written in turn. Readers use anchors[current], which does not change for a tick; a
 * reader that was off its CPU for longer sees that by `sequence`, and reads again. The control side
 * never writes the current one, so a reader never waits.
 */
static struct anchor {
	uint32_t sequence; /* odd while it is written */
	struct clock_readings readings;
	uint64_t ns_per_tick; /* 32.32 fixed point */
} anchors[2];
static uint32_t current;
static struct clock_readings first;
uint64_t clock_ns_scale;

static ON_HIT_PATH uint64_t timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static uint64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return timespec_ns(&t);
}

static void take_readings(struct clock_readings *readings)
{
	uint64_t best = UINT64_MAX;

	/* The narrowest of a few brackets: an interrupt in between would part the clocks. */
	for (int i = 0; i < 4; i++) {
		uint64_t before = clock_ticks(STORE_CLOCK_TSC);
		uint64_t monotonic = read_clock(CLOCK_MONOTONIC);
		uint64_t raw = read_clock(CLOCK_MONOTONIC_RAW);
		uint64_t real = read_clock(CLOCK_REALTIME);
		uint64_t width = clock_ticks(STORE_CLOCK_TSC) - before;

		if (width < best) {
			best = width;
			*readings = (struct clock_readings){ before + width / 2, monotonic, raw,
							     real };
		}
	}
}

static void publish(const struct clock_readings *readings)
{
	uint32_t next = !current;
	uint64_t ticks = readings->ticks - first.ticks;
	uint64_t ns = readings->monotonic_ns - first.monotonic_ns;

	/* a fork may have left it odd; odd before what follows, pairs with anchor_read() */
	__atomic_store_n(&anchors[next].sequence, (anchors[next].sequence + 1) | 1,
			 __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	anchors[next].readings = *readings;
	if (ticks)
		anchors[next].ns_per_tick = (uint64_t)(((unsigned __int128)ns << 32) / ticks);
	__atomic_store_n(&anchors[next].sequence, anchors[next].sequence + 1, __ATOMIC_RELEASE);
	/* pairs with the acquire in anchor_read() */
	__atomic_store_n(&current, next, __ATOMIC_RELEASE);
}

void clock_init(void)
{
	struct clock_readings now;

	take_readings(&first);
	do {
		take_readings(&now);
	} while (now.monotonic_ns - first.monotonic_ns < 1000000);
	publish(&now);
}

void clock_renew(void)
{
	struct clock_readings now;

	take_readings(&now);
	publish(&now);
}

/* A whole copy of the current anchor. */
static ON_HIT_PATH void anchor_read(struct anchor *copy)
{
	const struct anchor *anchor;

	do {
		anchor = &anchors[__atomic_load_n(&current, __ATOMIC_ACQUIRE)];
		copy->sequence = __atomic_load_n(&anchor->sequence, __ATOMIC_ACQUIRE);
		copy->readings = *(const volatile struct clock_readings *)&anchor->readings;
		copy->ns_per_tick = *(const volatile uint64_t *)&anchor->ns_per_tick;
		__atomic_thread_fence(__ATOMIC_ACQUIRE); /* pairs with the fence in publish() */
	} while (copy->sequence & 1 ||
		 __atomic_load_n(&anchor->sequence, __ATOMIC_RELAXED) != copy->sequence);
}

ON_HIT_PATH void clock_at(uint32_t clock, uint64_t ticks, struct clock_readings *readings)
{
	const struct clock_readings *anchor;
	struct anchor copy;
	int64_t ns;

	anchor_read(&copy);
	anchor = &copy.readings;

	if (clock == STORE_CLOCK_MONOTONIC)
		ns = (int64_t)(ticks - anchor->monotonic_ns);
	else
		ns = (int64_t)(((__int128)(int64_t)(ticks - anchor->ticks) *
				(__int128)copy.ns_per_tick) >>
			       32);
	readings->ticks = ticks;
	readings->monotonic_ns = anchor->monotonic_ns + (uint64_t)ns;
	readings->monotonic_raw_ns = anchor->monotonic_raw_ns + (uint64_t)ns;
	readings->realtime_ns = anchor->realtime_ns + (uint64_t)ns;
}

/*
 * Without lfence, rdtsc may run before an earlier load is complete. Linux makes lfence wait for all
 * earlier instructions on AMD, too (arch/x86/kernel/cpu/amd.c).
 */
static ON_HIT_PATH uint64_t ordered_ticks(void)
{
	uint64_t low, high;

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return high << 32 | low;
}

/*
 * CLOCK_MONOTONIC is where the TSC can't be trusted. By system call, not by the vDSO, whose code
 * may use vector registers; the kernel keeps them (syscall ABI: only rcx and r11 are lost).
 */
ON_HIT_PATH uint64_t clock_ticks_slow(uint32_t clock)
{
	struct timespec t;
	long result;

	if (clock == STORE_CLOCK_ORDERED)
		return ordered_ticks();
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"((long)SYS_clock_gettime), "D"((long)CLOCK_MONOTONIC), "S"(&t)
			 : "rcx", "r11", "memory");
	return result ? 0 : timespec_ns(&t);
}

void clock_rate_set(uint64_t tsc_hz)
{
	clock_ns_scale = tsc_hz ? (UINT64_C(1000000000) << 32) / tsc_hz : 0;
}
