/* SPDX-License-Identifier: MIT */
#include "base/testing/await.h"
#include "record/perf/instance.h"
#include "record/perf/testing/fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define WRITES 20

TestSuite(event_object, .init = fixture_need_breakpoints, .timeout = 60);

static struct fixture_shared *shared; /* the child's */

/* By an instruction that is one store, with no load: to any address, so none is left out. */
static BED_STORES void write_word(unsigned int word, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		words[word] = i + 1;
	__atomic_add_fetch(&shared->written, times, __ATOMIC_ACQ_REL);
}

/* ---- one thread ---- */

static void lonely(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	for (unsigned int step = 1; step < 90; step++) {
		fixture_meet(own, step);
		write_word(0, WRITES);
		write_word(1, 3);
	}
}

Test(event_object, counts_each_store_from_armed_to_disarmed)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 2);
	object = fixture_arm(&request);
	cr_assert_eq(perf_object_state(object), EVENT_ARMED);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), WRITES);
	cr_assert_eq(fixture_count(object, 1), 3);
	perf_object_disarm(object);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(perf_object_state(object), EVENT_DISARMED);
	cr_assert_eq(fixture_count(object, 0), WRITES, "the counts are kept");
	cr_assert_eq(fixture_count(object, 1), 3);
	cr_assert(perf_object_armed_ns(object) < perf_object_disarmed_ns(object));
	perf_object_release(object);
	fixture_end(&fixture);
}

Test(event_object, signals_come_with_our_data_and_the_generation)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct fixture fixture;

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.flags = EVENT_SIGNAL;
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(object, 0), WRITES);
	cr_assert_eq(fixture.shared->hits, WRITES);
	cr_assert_eq(fixture.shared->strange, 0);
	cr_assert_eq(fixture.shared->data, sources[0].sig_data, "generation 0");
	cr_assert_eq(fixture.shared->address, sources[0].address);
	perf_object_release(object);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(fixture.shared->hits, WRITES, "none after it was disarmed");
	fixture_end(&fixture);
}

/* ---- a program that starts threads as fast as it can ---- */

#define STORM_THREADS 400
#define STORM_WRITES 2
#define STORM_STARTERS 3

/* Waits until all is armed, then stores; so each of its stores must be counted, once. */
static void *storm_writer(void *data)
{
	(void)data;
	fixture_meet(shared, 1);
	write_word(0, STORM_WRITES);
	__atomic_add_fetch(&shared->ended, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void *storm_starter(void *data)
{
	(void)data;
	while (__atomic_load_n(&shared->step, __ATOMIC_ACQUIRE) < 1 &&
	       __atomic_load_n(&shared->started, __ATOMIC_ACQUIRE) < STORM_THREADS) {
		__atomic_add_fetch(&shared->started, 1, __ATOMIC_ACQ_REL);
		fixture_threads(1, storm_writer, NULL);
	}
	fixture_meet(shared, 1);
	write_word(0, STORM_WRITES);
	__atomic_add_fetch(&shared->starters, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

/*
 * Each starter first starts the next one: so most threads are started by threads that were started
 * themselves.
 */
static void storm(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	fixture_threads(STORM_STARTERS - 1, storm_starter, NULL);
	storm_starter(NULL);
	fixture_meet(own, 99);
}

static int storm_is_over(const struct fixture_shared *seen)
{
	return __atomic_load_n(&seen->starters, __ATOMIC_ACQUIRE) == STORM_STARTERS &&
	       __atomic_load_n(&seen->ended, __ATOMIC_ACQUIRE) ==
		       __atomic_load_n(&seen->started, __ATOMIC_ACQUIRE);
}

static void armed_in_a_storm(unsigned int flags, int times)
{
	for (int i = 0; i < times; i++) {
		struct event_source sources[EVENT_SOURCES_MAX];
		struct event_request request;
		struct perf_object *object;
		struct event_coverage coverage;
		struct fixture fixture;
		unsigned int threads;

		fixture_start(&fixture, storm);
		cr_assert(AWAIT(__atomic_load_n(&fixture.shared->started, __ATOMIC_ACQUIRE) >=
				(unsigned int)(20 * i)));
		fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 3);
		request.flags = flags;
		object = fixture_arm(&request);
		fixture_step(&fixture, 1, 0);
		cr_assert(AWAIT(storm_is_over(fixture.shared)));
		threads = fixture.shared->started + STORM_STARTERS;
		cr_assert_eq(perf_object_coverage(object, &coverage), 0);
		cr_assert_eq(coverage.starved, 0);
		cr_assert_eq(coverage.was_stopped, !(flags & EVENT_NO_STOP));
		cr_assert_eq(coverage.missing_count, 0, "thread %d of %u: error %d",
			     coverage.missing[0].tid, coverage.missing_count,
			     coverage.missing[0].error);
		cr_assert_eq(fixture.shared->written, (uint64_t)threads * STORM_WRITES);
		cr_assert_eq(fixture_count(object, 0), fixture.shared->written,
			     "time %d, %u threads", i, threads);
		if (flags & EVENT_SIGNAL)
			cr_assert_eq(fixture.shared->hits, fixture.shared->written);
		cr_assert_eq(fixture.shared->strange, 0);
		perf_coverage_release(&coverage);
		perf_object_release(object);
		fixture_end(&fixture);
	}
}

Test(event_object, threads_born_while_arming_are_covered_once)
{
	armed_in_a_storm(EVENT_SIGNAL, 10);
}

Test(event_object, threads_born_while_arming_are_covered_once_unstopped)
{
	armed_in_a_storm(EVENT_SIGNAL | EVENT_NO_STOP, 10);
}

/* ---- registers and their threads ---- */

static pthread_t creator;

/* The one that was started: it takes turns with its creator on one CPU, and lives on. */
static void *created(void *data)
{
	(void)data;
	__atomic_store_n(&shared->started, (unsigned int)gettid(), __ATOMIC_RELEASE);
	while (__atomic_load_n(&shared->step, __ATOMIC_ACQUIRE) < 2)
		sched_yield();
	pthread_join(creator, NULL);
	fixture_meet(shared, 3);
	write_word(0, 5);
	fixture_meet(shared, 99);
	return NULL;
}

static void *create(void *data)
{
	(void)data;
	fixture_threads(1, created, NULL);
	while (!__atomic_load_n(&shared->started, __ATOMIC_ACQUIRE))
		sched_yield();
	for (int i = 0; i < 5001; i++)
		sched_yield();
	__atomic_store_n(&shared->step, 2, __ATOMIC_RELEASE);
	return NULL;
}

static void creation(struct fixture_shared *own)
{
	cpu_set_t one;

	shared = own;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	fixture_meet(own, 1);
	pthread_create(&creator, NULL, create, NULL);
	pause();
}

Test(event_object, a_thread_keeps_its_registers_when_its_creator_ends)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct event_coverage coverage;
	struct fixture fixture;

	fixture_need_own_threads();
	if (!instance_keeps_place())
		cr_skip_test("Linux before 6.12 exchanges the events of threads");
	fixture_start(&fixture, creation);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 2);
	object = fixture_arm(&request);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(instance_free_registers((pid_t)fixture.shared->started, -1), 2);
	fixture_step(&fixture, 3, 1);
	cr_assert_eq(fixture_count(object, 0), 5);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.opened, 1);
	cr_assert_eq(coverage.inherited, 1);
	cr_assert_eq(coverage.starved, 0);
	perf_coverage_release(&coverage);
	perf_object_release(object);
	fixture_end(&fixture);
}

/* ---- all or nothing ---- */

#define CROWD 1000

static void *crowd_member(void *data)
{
	(void)data;
	fixture_meet(shared, 1);
	write_word(0, 1);
	write_word(3, 1);
	fixture_meet(shared, 2);
	write_word(0, 1);
	fixture_meet(shared, 99);
	return NULL;
}

static void crowd(struct fixture_shared *own)
{
	shared = own;
	fixture_catch(own);
	fixture_threads(CROWD - 1, crowd_member, NULL);
	crowd_member(NULL);
}

/* Take debug registers of a thread, as another program would. */
static void take(pid_t tid, int fds[], unsigned int count)
{
	struct event_source source = {
		.kind = EVENT_WRITE,
		.bytes = 8,
		.address = (uint64_t)(uintptr_t)&words[7],
	};
	struct instance_form form = { .scope = EVENT_THREAD };

	for (unsigned int i = 0; i < count; i++) {
		struct instance one = { .tid = tid, .cpu = -1, .is_leader = 1 };

		cr_assert_eq(instance_open(&one, &source, &form, -1), 0);
		fds[i] = one.fd;
	}
}

Test(event_object, a_thousand_threads_and_four_watches_are_all_or_nothing)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct event_coverage coverage;
	unsigned int before;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	struct fixture fixture;
	pid_t *tids;
	int fd;

	fixture_need_own_threads();
	fixture_start(&fixture, crowd);
	fixture_wait(&fixture, CROWD);
	before = fixture_descriptors();
	cr_assert_eq(target_threads(fixture.pid, &tids), CROWD);
	take(tids[CROWD - 1], &fd, 1);

	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	request.flags = EVENT_SIGNAL;
	fixture_need_trials(&request);
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_assert_eq(perf_object_arm(object, detail), -WM_E_EVENT_TAKEN);
	cr_assert(strstr(text, " has 3 free, 4 are wanted"), "%s", text);
	cr_assert_eq(atoi(text + strlen("thread ")), tids[CROWD - 1], "%s", text);
	cr_assert_eq(perf_object_state(object), EVENT_PREPARING);
	close(fd);
	cr_assert_eq(fixture_descriptors(), before, "nothing is left behind");
	cr_assert_eq(instance_free_registers(tids[0], -1), 4);
	fixture_step(&fixture, 1, CROWD);
	cr_assert_eq(fixture.shared->hits, 0, "nothing has fired");

	cr_assert_eq(perf_object_arm(object, detail), 0, "%s", text);
	cr_assert_eq(perf_object_coverage(object, &coverage), 0);
	cr_assert_eq(coverage.wanted, CROWD);
	cr_assert_eq(coverage.opened, CROWD);
	cr_assert_eq(coverage.inherited + coverage.ended + coverage.missing_count, 0);
	perf_coverage_release(&coverage);
	cr_assert_eq(instance_free_registers(tids[CROWD / 2], -1), 0);
	fixture_step(&fixture, 2, CROWD);
	cr_assert_eq(fixture_count(object, 0), CROWD);
	cr_assert_eq(fixture.shared->hits, CROWD);
	perf_object_release(object);
	cr_assert_eq(fixture_descriptors(), before);
	cr_assert_eq(instance_free_registers(tids[0], -1), 4);
	free(tids);
	fixture_end(&fixture);
}

Test(event_object, a_fifth_watch_is_refused)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *first, *second;
	unsigned int before;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	struct fixture fixture;

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	first = fixture_arm(&request);
	before = fixture_descriptors();
	request.source_count = 1;
	cr_assert_eq(perf_object_new(&second, &request, detail), 0);
	cr_assert_eq(perf_object_arm(second, detail), -WM_E_EVENT_TAKEN);
	cr_assert(strstr(text, " has 0 free, 1 are wanted"), "%s", text);
	cr_assert_eq(fixture_descriptors(), before);
	fixture_step(&fixture, 1, 1);
	cr_assert_eq(fixture_count(first, 0), WRITES, "who was there first keeps his");
	perf_object_release(first);
	cr_assert_eq(perf_object_arm(second, detail), 0, "%s", text);
	perf_object_release(second);
	fixture_end(&fixture);
}

/* Those that are ours: the ledgers of other sessions on this machine are read as well. */
Test(event_object, too_few_descriptors_are_told_with_the_figures)
{
	struct rlimit limit = { 64, 90 }, after;
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	char text[256] = "";
	struct detail detail = { text, sizeof(text) };
	struct fixture fixture;

	fixture_start(&fixture, storm);
	fixture_wait(&fixture, 100);
	/* as some shells leave one open: it takes no room from others */
	cr_assert_eq(dup2(STDOUT_FILENO, 250), 250);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 4);
	cr_assert_eq(perf_object_new(&object, &request, detail), 0);
	cr_assert_eq(perf_object_arm(object, detail), -WM_E_NO_DESCRIPTORS);
	cr_assert(strstr(text, "RLIMIT_NOFILE allows 90 at most"), "%s", text);
	perf_object_release(object);
	fixture_end(&fixture);
	/* the soft limit is ours to raise */
	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	request.pid = fixture.pid;
	request.source_count = 1;
	object = fixture_arm(&request);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &after), 0);
	cr_assert_eq(after.rlim_cur, 90);
	perf_object_release(object);
	fixture_end(&fixture);
}

static struct settled {
	pid_t pid;
	unsigned int calls;
	int answer, free_registers;
	char state;
	uint8_t generation;
} settled;

static int settle_look(void *data, uint8_t generation)
{
	struct settled *own = data;

	own->calls++;
	own->state = target_thread_state(own->pid, own->pid);
	own->free_registers = instance_free_registers(own->pid, -1);
	own->generation = generation;
	return own->answer;
}

Test(event_object, who_settles_finds_all_stopped_and_none_enabled_and_may_refuse)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct perf_object *object;
	struct fixture fixture;
	unsigned int before = fixture_descriptors();

	fixture_start(&fixture, lonely);
	fixture_wait(&fixture, 1);
	fixture_request(&request, sources, EVENT_PROCESS, fixture.pid, 1);
	request.settle = settle_look;
	settled = (struct settled){ .pid = fixture.pid, .answer = -ECANCELED };
	request.settle_data = &settled;
	cr_assert_eq(perf_object_new(&object, &request, (struct detail){ 0 }), 0);
	cr_assert_eq(perf_object_arm(object, (struct detail){ 0 }), -ECANCELED);
	cr_assert_eq(settled.calls, 1);
	cr_assert_eq(settled.state, 't');
	cr_assert_eq(settled.free_registers, 3, "it is opened");
	cr_assert_eq(fixture_descriptors(), before);
	fixture_step(&fixture, 1, 1);
	settled.answer = 0;
	cr_assert_eq(perf_object_arm(object, (struct detail){ 0 }), 0);
	cr_assert_eq(settled.generation, 0);
	fixture_step(&fixture, 2, 1);
	cr_assert_eq(fixture_count(object, 0), WRITES);
	perf_object_release(object);
	fixture_end(&fixture);
}
