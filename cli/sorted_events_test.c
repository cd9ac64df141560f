/* SPDX-License-Identifier: MIT */
#include "cli/sorted_events.h"

#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT 500

static struct sorted_events events;
static struct trace_class class;
static struct trace_stream streams[4] = { { .cpu = 0 }, { .cpu = 1 }, { .cpu = 2 }, { .cpu = -1 } };

static void end(void)
{
	sorted_events_release(&events);
}

TestSuite(sorted_events, .fini = end);

/* Add events of any threads and CPUs; each has its number as its time and its field. */
static void add(enum event_order order)
{
	uint64_t seed = 14;

	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t random = sample_random(&seed), field = i;
		struct merge_event event = { .stream = &streams[random % 4],
					     .class = random & 64 ? &class : NULL,
					     .ns = i,
					     .pid = (uint32_t)(random >> 8 & 1),
					     .tid = UINT32_MAX - (uint32_t)(random >> 9 & 3) };

		event.fields = (const uint8_t *)&field;
		event.end = event.fields + sizeof(field);
		cr_assert_eq(sorted_events_add(&events, &event, order), 0);
		field = UINT64_MAX; /* a copy was taken */
	}
	sorted_events_sort(&events);
}

static uint64_t key_of(const struct merge_event *event, enum event_order order)
{
	return order == ORDER_CPU      ? (uint32_t)event->stream->cpu
	       : order == ORDER_THREAD ? (uint64_t)event->pid << 32 | event->tid
				       : 0;
}

static void expect_order(enum event_order order)
{
	struct merge_event event, before = { 0 };
	unsigned int count = 0;

	for (; sorted_events_next(&events, &event); before = event, count++) {
		if (event.class) {
			cr_assert_eq(event.end - event.fields, 8);
			cr_assert_eq(memcmp(event.fields, &event.ns, 8), 0);
		} else
			cr_assert_eq(event.end, event.fields);
		if (count)
			cr_assert(key_of(&before, order) < key_of(&event, order) ||
				  (key_of(&before, order) == key_of(&event, order) &&
				   before.ns < event.ns));
	}
	cr_expect_eq(count, COUNT);
	cr_expect_eq(sorted_events_next(&events, &event), 0);
}

Test(sorted_events, cpus_are_together_and_those_of_none_last)
{
	add(ORDER_CPU);
	expect_order(ORDER_CPU);
}

Test(sorted_events, threads_are_together)
{
	add(ORDER_THREAD);
	expect_order(ORDER_THREAD);
}

Test(sorted_events, time_is_kept)
{
	add(ORDER_TIME);
	expect_order(ORDER_TIME);
}

Test(sorted_events, none_are_none)
{
	struct merge_event event;

	sorted_events_sort(&events);
	cr_expect_eq(sorted_events_next(&events, &event), 0);
}
