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

static void write_word(unsigned int word, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		words[word] = i + 1;
}

/* ---- one thread ---- */

static void lonely(struct bed_shared *shared)
{
	bed_meet(shared, 1);
	write_word(0, WRITES);
	write_word(1, 3);
	bed_meet(shared, 2);
	write_word(0, WRITES);
	bed_meet(shared, 99);
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
