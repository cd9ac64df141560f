/* SPDX-License-Identifier: MIT */
/*
 * Real CPUs go offline and come back. Runs in the guest only: no user's machine is to lose a CPU
 * (tests/guest.sh).
 */
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <waymark/error.h>
#include <waymark/kevent.h>

#define STORES 4
#define FIRST 1 /* that can go: the first of all can't */
#define SECOND 2

static struct event_source sources[EVENT_SOURCES_MAX];
static struct event_request request;
static struct fixture fixture;
static unsigned int steps;

static void cpu_set_online(int cpu, int to)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	file = fopen(path, "we");
	cr_assert(file, "%s", path);
	cr_assert(fprintf(file, "%d\n", to) > 0);
	cr_assert_eq(fclose(file), 0, "CPU %d to %d", cpu, to);
}

static int run_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one);
}

/* Each step is some stores on a CPU. */
static void traveller(struct fixture_shared *own)
{
	for (unsigned int step = 1;; step++) {
		fixture_meet(own, step);
		if (run_on((int)own->data))
			_exit(5);
		for (unsigned int i = 0; i < STORES; i++)
			words[0] = i;
		if (run_on(0))
			_exit(6);
	}
}

static void store_on(int cpu)
{
	fixture.shared->data = (uint64_t)cpu;
	fixture_step(&fixture, ++steps, 1);
}

static void need_guest(void)
{
	if (!getenv("WAYMARK_GUEST"))
		cr_skip_test("it takes CPUs offline, so in the guest alone: make guest");
	fixture_need_breakpoints();
	cr_assert_eq(run_on(0), 0);
	cpu_set_online(FIRST, 1);
	cpu_set_online(SECOND, 1);
	steps = 0;
	fixture_start(&fixture, traveller);
	fixture_wait(&fixture, 1);
}

static void end(void)
{
	if (fixture.pid)
		fixture_end(&fixture);
}

TestSuite(event_hotplug, .init = need_guest, .fini = end, .timeout = 60);

static void expect_coverage(struct perf_object *object, unsigned int wanted, unsigned int opened,
			    int missing, int error)
{
	struct event_coverage coverage;

	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, wanted, "%u wanted", coverage.wanted);
	cr_assert_eq(coverage.opened, opened, "%u opened", coverage.opened);
	cr_assert_eq(coverage.missing_count, missing >= 0 ? 1 : 0);
	if (missing >= 0) {
		cr_assert_eq(coverage.missing[0].cpu, missing);
		cr_assert_eq(coverage.missing[0].tid, -1);
		cr_assert_eq(coverage.missing[0].error, error, "%d", coverage.missing[0].error);
	}
	perf_coverage_release(&coverage);
}

static void follow(struct perf_object *object)
{
	char text[256] = "";

	cr_assert_eq(perf_object_follow(object, (struct detail){ text, sizeof(text) }), 0, "%s",
		     text);
}

static void expect_uncovered(struct perf_object *object, size_t wanted, int cpu)
{
	const struct event_uncovered *all;
	size_t count;

	all = perf_object_uncovered(object, &count);
	cr_assert_eq(count, wanted, "%zu", count);
	if (!wanted)
		return;
	cr_assert_eq(all[count - 1].cpu, cpu);
	cr_assert_geq(all[count - 1].first_ns, perf_object_armed_ns(object));
	cr_assert_lt(all[count - 1].first_ns, all[count - 1].last_ns);
}

/* Of one CPU, or all; with so many registers. */
static void comes_back(enum event_scope scope, unsigned int registers)
{
	const unsigned int cpus[] = { FIRST };
	unsigned int wanted = scope == EVENT_SYSTEM ? 3 : 1;
	struct perf_object *object;

	fixture_request(&request, sources, scope, 0, registers);
	request.cpus = cpus;
	request.cpu_count = 1;
	object = fixture_arm(&request);
	store_on(FIRST);
	cr_assert_eq(fixture_count(object, 0), STORES);
	expect_coverage(object, wanted, wanted, -1, 0);
	follow(object);
	expect_uncovered(object, 0, 0);

	cpu_set_online(FIRST, 0);
	expect_coverage(object, wanted, wanted - 1, FIRST, -ENODEV);
	cr_assert_eq(fixture_count(object, 0), STORES, "what was counted stays");
	follow(object);
	expect_uncovered(object, 0, 0);

	cpu_set_online(FIRST, 1);
	store_on(FIRST);
	cr_assert_eq(fixture_count(object, 0), STORES, "the kernel has dropped them");
	expect_coverage(object, wanted, wanted - 1, FIRST, -WM_E_EVENT_CPU_BACK);
	follow(object);
	expect_uncovered(object, 1, FIRST);
	expect_coverage(object, wanted, wanted, -1, 0);
	store_on(FIRST);
	cr_assert_eq(fixture_count(object, 0), 2 * STORES);

	/* between two looks, as with a machine that was suspended; and changed meanwhile */
	cpu_set_online(FIRST, 0);
	cr_assert_eq(perf_object_modify(object, sources, EVENT_MODIFY_RUNNING, NULL,
					(struct detail){ 0 }),
		     0);
	cpu_set_online(FIRST, 1);
	cr_assert_eq(perf_object_modify(object, sources, EVENT_MODIFY_RUNNING, NULL,
					(struct detail){ 0 }),
		     0);
	expect_coverage(object, wanted, wanted - 1, FIRST, -WM_E_EVENT_CPU_BACK);
	follow(object);
	expect_uncovered(object, 2, FIRST);
	store_on(FIRST);
	store_on(0);
	perf_object_disarm(object);
	cr_assert_eq(fixture_count(object, 0), (scope == EVENT_SYSTEM ? 4 : 3) * STORES);
	expect_uncovered(object, 2, FIRST);
	perf_object_release(object);
}

Test(event_hotplug, a_cpu_that_comes_back_has_its_events_again)
{
	comes_back(EVENT_CPUS, 1);
}

Test(event_hotplug, on_a_system_too)
{
	comes_back(EVENT_SYSTEM, 1);
}

Test(event_hotplug, though_they_hold_all_registers)
{
	comes_back(EVENT_SYSTEM, 4);
}

Test(event_hotplug, a_cpu_that_comes_later_is_followed)
{
	struct perf_object *object;
	struct instance other = { .tid = -1, .cpu = SECOND, .is_leader = 1 };
	struct instance_form form = { .scope = EVENT_CPUS };

	cpu_set_online(SECOND, 0);
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 4);
	object = fixture_arm(&request);
	expect_coverage(object, 2, 2, -1, 0);
	cpu_set_online(SECOND, 1);
	expect_coverage(object, 3, 2, SECOND, -WM_E_EVENT_CAME_LATER);

	/* somebody was there before us */
	cr_assert_eq(instance_open(&other, &sources[3], &form, -1), 0);
	follow(object);
	expect_coverage(object, 3, 2, SECOND, -WM_E_EVENT_TAKEN);
	expect_uncovered(object, 0, 0);
	close(other.fd);
	store_on(SECOND);
	cr_assert_eq(fixture_count(object, 0), 0);
	follow(object);
	expect_coverage(object, 3, 3, -1, 0);
	expect_uncovered(object, 1, SECOND);
	store_on(SECOND);
	cr_assert_eq(fixture_count(object, 0), STORES);
	perf_object_release(object);
}

Test(event_hotplug, what_was_never_followed_is_told_at_the_end)
{
	struct perf_object *object;
	const struct event_uncovered *all;
	size_t count;

	cpu_set_online(SECOND, 0);
	fixture_request(&request, sources, EVENT_SYSTEM, 0, 1);
	object = fixture_arm(&request);
	cpu_set_online(FIRST, 0);
	cpu_set_online(FIRST, 1);
	cpu_set_online(SECOND, 1);
	perf_object_disarm(object);
	all = perf_object_uncovered(object, &count);
	cr_assert_eq(count, 2, "%zu", count);
	for (size_t i = 0; i < count; i++)
		cr_assert(all[i].first_ns < all[i].last_ns &&
			  all[i].last_ns <= perf_object_disarmed_ns(object));
	perf_object_release(object);
}

static int count_it(void *data, const struct event_record *record)
{
	cr_assert_eq(record->source, 0);
	++((unsigned int *)data)[record->cpu];
	return 0;
}

Test(event_hotplug, threads_are_seen_on_cpus_that_come_later)
{
	unsigned int seen[3] = { 0 };
	struct perf_object *object;

	cpu_set_online(SECOND, 0);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_RINGS;
	object = fixture_arm(&request);
	cpu_set_online(SECOND, 1);
	store_on(SECOND);
	cpu_set_online(FIRST, 0);
	cpu_set_online(FIRST, 1);
	store_on(FIRST);
	store_on(0);
	follow(object);
	expect_coverage(object, 1, 1, -1, 0);
	expect_uncovered(object, 0, 0);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, count_it, seen), 0);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(seen[i], STORES, "%u on CPU %d", seen[i], i);
	cr_assert_eq(perf_object_lost(object), 0);
	perf_object_release(object);
}

Test(event_hotplug, rings_of_cpus_go_on)
{
	unsigned int seen[3] = { 0 };
	struct perf_object *object;

	fixture_request(&request, sources, EVENT_SYSTEM, 0, 2);
	request.flags = EVENT_RINGS;
	object = fixture_arm(&request);
	store_on(FIRST);
	cpu_set_online(FIRST, 0);
	cpu_set_online(FIRST, 1);
	follow(object);
	store_on(FIRST);
	perf_object_disarm(object);
	cr_assert_eq(perf_object_drain(object, 1, count_it, seen), 0);
	cr_assert_eq(seen[FIRST], 2 * STORES, "%u", seen[FIRST]);
	cr_assert_eq(perf_object_lost(object), 0);
	cr_assert_eq(perf_object_stray(object), 0);
	perf_object_release(object);
}

/* By what is installed alone. */
Test(event_hotplug, programs_can_follow_too)
{
	struct wm_kevent_source source = { .size = sizeof(source),
					   .kind = WM_KEVENT_KIND_WRITE,
					   .bytes = 8,
					   .address = (uint64_t)(uintptr_t)&words[0] };
	struct wm_kevent_request asked = { .size = sizeof(asked),
					   .scope = WM_KEVENT_SCOPE_SYSTEM,
					   .sources = &source,
					   .source_count = 1 };
	struct wm_kevent_coverage coverage = { .size = sizeof(coverage) };
	struct wm_kevent_missing missing;
	struct wm_kevent_uncovered times;
	struct wm_kevent *object;
	uint64_t hits;

	cr_assert_eq(wm_kevent_open(&object, &asked), 0);
	cr_assert_eq(wm_kevent_arm(object), 0, "%s", wm_kevent_detail(object));
	store_on(FIRST);
	cpu_set_online(FIRST, 0);
	cpu_set_online(FIRST, 1);
	store_on(FIRST);
	cr_assert_eq(wm_kevent_coverage(object, &coverage, &missing, 1), 1);
	cr_assert_eq(missing.cpu, FIRST);
	cr_assert_eq(missing.error, -WM_E_EVENT_CPU_BACK);
	cr_assert_eq(wm_kevent_rescan(object), 0, "%s", wm_kevent_detail(object));
	cr_assert_eq(wm_kevent_uncovered(object, &times, 1), 1);
	cr_assert_eq(times.cpu, FIRST);
	cr_assert_lt(times.first_ns, times.last_ns);
	store_on(FIRST);
	cr_assert_eq(wm_kevent_count(object, 0, &hits), 0);
	cr_assert_eq(hits, 2 * STORES);
	wm_kevent_close(object);
}
