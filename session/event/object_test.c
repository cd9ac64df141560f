/* SPDX-License-Identifier: MIT */
#include "session/event/bed_test.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

#define WRITES 20

TestSuite(event_object, .init = bed_need_breakpoints, .timeout = 60);

static struct bed_shared *shared; /* the child's */

/* By an instruction that is one store, with no load: to any address, so none is left out. */
static void write_word(unsigned int word, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		words[word] = i + 1;
	__atomic_add_fetch(&shared->written, times, __ATOMIC_ACQ_REL);
}

/* ---- one thread ---- */

static void lonely(struct bed_shared *own)
{
	shared = own;
	bed_catch(own);
	for (unsigned int step = 1; step < 90; step++) {
		bed_meet(own, step);
		write_word(0, WRITES);
		write_word(1, 3);
	}
}

Test(event_object, counts_each_store_from_armed_to_disarmed)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct event_object *object;
	struct bed bed;

	bed_start(&bed, lonely);
	bed_wait(&bed, 1);
	bed_request(&request, sources, EVENT_PROCESS, bed.pid, 2);
	object = bed_arm(&request);
	cr_assert_eq(event_object_state(object), EVENT_ARMED);
	bed_step(&bed, 1, 1);
	cr_assert_eq(bed_count(object, 0), WRITES);
	cr_assert_eq(bed_count(object, 1), 3);
	event_object_disarm(object);
	bed_step(&bed, 2, 1);
	cr_assert_eq(event_object_state(object), EVENT_DISARMED);
	cr_assert_eq(bed_count(object, 0), WRITES, "the counts are kept");
	cr_assert_eq(bed_count(object, 1), 3);
	cr_assert(event_object_armed_ns(object) < event_object_disarmed_ns(object));
	event_object_release(object);
	bed_end(&bed);
}

Test(event_object, signals_come_with_our_data_and_the_round)
{
	struct event_source sources[EVENT_SOURCES_MAX];
	struct event_request request;
	struct event_object *object;
	struct bed bed;

	bed_start(&bed, lonely);
	bed_wait(&bed, 1);
	bed_request(&request, sources, EVENT_PROCESS, bed.pid, 1);
	request.flags = EVENT_SIGNAL;
	object = bed_arm(&request);
	bed_step(&bed, 1, 1);
	cr_assert_eq(bed_count(object, 0), WRITES);
	cr_assert_eq(bed.shared->hits, WRITES);
	cr_assert_eq(bed.shared->strange, 0);
	cr_assert_eq(bed.shared->data, sources[0].sig_data | 1, "generation 0, round 1");
	cr_assert_eq(bed.shared->address, sources[0].address);
	event_object_release(object);
	bed_step(&bed, 2, 1);
	cr_assert_eq(bed.shared->hits, WRITES, "none after it was disarmed");
	bed_end(&bed);
}

/* ---- a program that starts threads as fast as it can ---- */

#define STORM_THREADS 400
#define STORM_WRITES 2

/* Waits until all is armed, then stores; so each of its stores must be counted, once. */
static void *storm_writer(void *data)
{
	(void)data;
	bed_meet(shared, 1);
	write_word(0, STORM_WRITES);
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

static void *storm_starter(void *data)
{
	(void)data;
	while (__atomic_load_n(&shared->step, __ATOMIC_ACQUIRE) < 1 &&
	       __atomic_add_fetch(&shared->started, 1, __ATOMIC_ACQ_REL) <= STORM_THREADS)
		bed_threads(1, storm_writer, NULL);
	bed_meet(shared, 1);
	write_word(0, STORM_WRITES);
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_ACQ_REL);
	return NULL;
}

/* Starters of whom each starts the next one first: so most threads are started by ones that were started themselves. */
static void storm(struct bed_shared *own)
{
	shared = own;
	bed_catch(own);
	bed_threads(2, storm_starter, NULL);
	storm_starter(NULL);
	bed_meet(own, 99);
}

static void armed_in_a_storm(unsigned int flags, int times)
{
	for (int i = 0; i < times; i++) {
		struct event_source sources[EVENT_SOURCES_MAX];
		struct event_request request;
		struct event_object *object;
		struct event_coverage coverage;
		struct bed bed;
		unsigned int threads;

		bed_start(&bed, storm);
		while (__atomic_load_n(&bed.shared->started, __ATOMIC_ACQUIRE) <
		       (unsigned int)(20 * i))
			usleep(10);
		bed_request(&request, sources, EVENT_PROCESS, bed.pid, 3);
		request.flags = flags;
		object = bed_arm(&request);
		__atomic_store_n(&bed.shared->ready, 0, __ATOMIC_RELEASE);
		bed_step(&bed, 1, 3);
		do {
			threads = bed.shared->ready;
			usleep(20000);
		} while (threads != __atomic_load_n(&bed.shared->ready, __ATOMIC_ACQUIRE));
		cr_assert_eq(event_object_coverage(object, &coverage), 0);
		cr_log_info("%u writers, %u rounds, %u doubtful\n", threads, coverage.rounds,
			    coverage.doubtful);
		cr_assert_eq(coverage.was_stopped, !(flags & EVENT_NO_STOP));
		cr_assert_eq(coverage.missing_count, 0, "thread %d of %u: error %d",
			     coverage.missing[0].tid, coverage.missing_count,
			     coverage.missing[0].error);
		cr_assert_eq(bed_count(object, 0), bed.shared->written, "time %d, %u threads", i,
			     threads);
		if (flags & EVENT_SIGNAL)
			cr_assert_eq(bed.shared->hits, bed.shared->written);
		cr_assert_eq(bed.shared->strange, 0);
		event_coverage_release(&coverage);
		event_object_release(object);
		bed_end(&bed);
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
