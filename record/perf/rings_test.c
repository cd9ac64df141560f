/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/perf/cpus.h"
#include "record/perf/instance.h"
#include "record/perf/rings.h"
#include "record/perf/testing/fixture.h"

#include <asm/perf_regs.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <waymark/error.h>

#define THREADS 6
#define STORES 40

TestSuite(event_rings, .init = fixture_need_breakpoints, .timeout = 60);

static struct fixture_shared *shared; /* the child's */

/* The one store, by a known instruction from a known register. */
extern const char store_next[];
static __attribute__((noinline)) void store_it(uint64_t value)
{
	__asm__ volatile("movq %1, %0\nstore_next: nop" : "=m"(words[0]) : "d"(value));
}

/* Each on a CPU of its own, as far as there are. */
static void spread(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(gettid() % (int)sysconf(_SC_NPROCESSORS_ONLN), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *storer(void *data)
{
	(void)data;
	spread();
	fixture_meet(shared, 1);
	for (uint64_t i = 0; i < STORES; i++)
		store_it((uint64_t)gettid() << 32 | i);
	__atomic_add_fetch(&shared->ended, 1, __ATOMIC_ACQ_REL);
	fixture_meet(shared, 99);
	return NULL;
}

/* Some are there when it is armed, some come later. */
static void storers(struct fixture_shared *own)
{
	shared = own;
	fixture_threads(THREADS / 2, storer, NULL);
	fixture_meet(own, 1);
	fixture_threads(THREADS / 2, storer, NULL);
	fixture_meet(own, 99);
}

struct taken {
	unsigned int count, wrong;
	uint64_t last_ns;
	struct {
		pid_t tid;
		uint64_t next;
	} threads[THREADS];
};

static int take(void *data, const struct event_record *record)
{
	struct taken *taken = data;
	uint64_t value = record->regs[PERF_REG_X86_DX];
	int i = 0;

	while (i < THREADS && taken->threads[i].tid && taken->threads[i].tid != record->tid)
		i++;
	if (i == THREADS)
		return -E2BIG;
	taken->threads[i].tid = record->tid;
	taken->wrong += record->time_ns < taken->last_ns;
	taken->wrong += record->ip != (uint64_t)(uintptr_t)store_next;
	taken->wrong += record->address != (uint64_t)(uintptr_t)&words[0];
	taken->wrong += record->source != 0 || !record->has_regs || record->is_kernel;
	taken->wrong += value != ((uint64_t)record->tid << 32 | taken->threads[i].next++);
	taken->last_ns = record->time_ns;
	taken->count++;
	return 0;
}

static void all_stored(const struct fixture *fixture)
{
	fixture_step(fixture, 1, 0);
	cr_assert(AWAIT(__atomic_load_n(&fixture->shared->ended, __ATOMIC_ACQUIRE) == THREADS));
}

/* Drains what is there. Returns how many hits there were up to now. */
static unsigned int taken_so_far(struct perf_object *object, struct taken *taken)
{
	cr_assert_eq(perf_object_drain(object, 0, take, taken), 0);
	return taken->count;
}

Test(event_rings, every_store_is_told_with_its_registers_in_order)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct event_coverage coverage;
	struct perf_object *object;
	struct taken taken = { 0 };
	struct fixture fixture;

	fixture_start(&fixture, storers);
	fixture_wait(&fixture, THREADS / 2 + 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 2);
	request.flags = EVENT_RINGS;
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 0);
	cr_assert(AWAIT(taken_so_far(object, &taken) >= THREADS * STORES), "%u", taken.count);
	cr_assert_eq(taken.count, THREADS * STORES);
	cr_assert_eq(taken.wrong, 0);
	cr_assert_eq(fixture_count(object, 0), THREADS * STORES);
	cr_assert_eq(perf_object_lost(object), 0);
	cr_assert_eq(perf_object_stray(object), 0);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.opened, THREADS / 2 + 1, "%u of %u, %u", coverage.opened,
		     coverage.wanted, coverage.inherited);
	cr_assert_eq(coverage.inherited, THREADS / 2);
	cr_assert_eq(coverage.starved, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- where they can't be stopped ---- */

static int count_only(void *data, const struct event_record *record)
{
	(void)record;
	++*(unsigned int *)data;
	return 0;
}

#define STORM 120

static void *late_storer(void *data)
{
	(void)data;
	fixture_meet(shared, 1);
	store_it((uint64_t)gettid() << 32);
	__atomic_add_fetch(&shared->ended, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void storm(struct fixture_shared *own)
{
	shared = own;
	while (__atomic_load_n(&own->step, __ATOMIC_ACQUIRE) < 1 && own->started < STORM) {
		__atomic_add_fetch(&own->started, 1, __ATOMIC_ACQ_REL);
		fixture_threads(1, late_storer, NULL);
	}
	fixture_meet(own, 1);
	__atomic_add_fetch(&own->starters, 1, __ATOMIC_ACQ_REL);
	fixture_meet(own, 99);
}

Test(event_rings, threads_born_while_arming_are_told_once)
{
	for (unsigned int i = 0; i < 6; i++) {
		struct event_source sources[EVENT_SOURCES_MAX];
		struct event_request request;
		struct perf_object *object;
		unsigned int count = 0;
		struct fixture fixture;

		fixture_start(&fixture, storm);
		cr_assert(AWAIT(__atomic_load_n(&fixture.shared->started, __ATOMIC_ACQUIRE) >=
				10 * i));
		fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 3);
		request.flags = EVENT_RINGS | (i % 2 ? EVENT_NO_STOP : 0);
		object = fixture_arm(&request);
		fixture_step(&fixture, 1, 0);
		cr_assert(AWAIT(__atomic_load_n(&fixture.shared->starters, __ATOMIC_ACQUIRE)));
		cr_assert(AWAIT(__atomic_load_n(&fixture.shared->ended, __ATOMIC_ACQUIRE) ==
				fixture.shared->started));
		perf_object_disarm(object);
		cr_assert_eq(perf_object_drain(object, 1, count_only, &count), 0);
		cr_assert_eq(count, fixture.shared->started);
		cr_assert_eq(fixture_count(object, 0), fixture.shared->started);
		perf_object_release(object);
		fixture_end(&fixture);
	}
}

Test(event_rings, what_is_left_when_it_is_disarmed_is_told)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct taken taken = { 0 };
	struct fixture fixture;

	fixture_start(&fixture, storers);
	fixture_wait(&fixture, THREADS / 2 + 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_RINGS;
	object = fixture_arm(&request);
	all_stored(&fixture);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, take, &taken), 0);
	cr_assert_eq(taken.count, THREADS * STORES);
	cr_assert_eq(taken.wrong, 0);
	perf_object_release(object);
	fixture_end(&fixture);
}

static int count_after_losses(void *data, const struct event_record *record)
{
	unsigned int *counts = data;

	counts[record->after_loss]++;
	return 0;
}

Test(event_rings, a_hit_behind_a_loss_says_so)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	unsigned int counts[2] = { 0 };
	cpu_set_t one;

	/* on another CPU there is room, behind what was lost on this */
	CPU_ZERO(&one);
	CPU_SET((unsigned int)sched_getcpu(), &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	fixture_request(&request, sources, EVENT_THREAD, gettid(), 1);
	request.flags = EVENT_RINGS;
	request.ring_bytes = 4096;
	object = fixture_arm(&request);
	for (uint64_t i = 0; i < 3; i++)
		store_it(i);
	cr_assert_eq(perf_object_drain(object, 1, count_after_losses, counts), 0);
	cr_assert_eq(counts[0], 3);
	for (uint64_t i = 0; i < 500; i++)
		store_it(i);
	cr_assert_eq(perf_object_drain(object, 1, count_after_losses, counts), 0);
	cr_assert_lt(counts[0], 500);
	cr_assert_eq(counts[1], 0, "nothing was lost in front of what found room");
	counts[0] = 0;
	for (uint64_t i = 0; i < 3; i++)
		store_it(i);
	cr_assert_eq(perf_object_drain(object, 1, count_after_losses, counts), 0);
	cr_assert_eq(counts[1], 1);
	cr_assert_eq(counts[0], 2);
	perf_object_release(object);
}

Test(event_rings, what_finds_a_ring_full_is_counted)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	unsigned int count = 0;
	struct fixture fixture;

	fixture_start(&fixture, storers);
	fixture_wait(&fixture, THREADS / 2 + 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_RINGS;
	request.ring_bytes = 4096;
	object = fixture_arm(&request);
	all_stored(&fixture);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, count_only, &count), 0);
	cr_assert_lt(count, THREADS * STORES);
	cr_assert_eq(perf_object_lost(object), THREADS * STORES - count);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* Nothing of it stays that would be read. */
Test(event_rings, a_ring_that_was_refused_is_none)
{
	struct rings rings = { 0 };
	unsigned int descriptors, count;

	cr_assert_eq(rings_open(&rings, 16384), 0);
	descriptors = fixture_descriptors();
	count = rings.count;
	cr_assert_lt(rings_open_cpu(&rings, 65535), 0);
	cr_assert_not(rings_has(&rings, 65535));
	cr_assert_eq(rings.count, count);
	cr_assert_eq(fixture_descriptors(), descriptors);
	cr_assert_eq(rings_memory(&rings), count * UINT64_C(20480));
	cr_assert_eq(rings_fill(&rings), 0);
	rings_release(&rings);
}

/* Callers free what they asked for, whatever the answer was. */
Test(event_rings, cpus_without_descriptors_are_null)
{
	const struct rlimit few = { 64, 64 };
	unsigned int *cpus = (unsigned int *)&shared;
	size_t count = 7;

	cr_assert_eq(cpus_parse("0-3,x", &cpus, &count), -EINVAL);
	cr_assert_null(cpus);
	cr_assert_eq(count, 0);
	cpus = (unsigned int *)&shared;
	count = 7;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (dup(0) >= 0)
		;
	cr_assert_eq(cpus_present(&cpus, &count), -EMFILE);
	cr_assert_null(cpus);
	cr_assert_eq(count, 0);
}
