/* SPDX-License-Identifier: MIT */
/*
 * A thread of main, f and g, whose trail has a time each millisecond, and samples between these
 * times.
 */
#include "read/history/samples.h"
#include "read/history/testing/made.h"
#include "trace/testing/packets.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <waymark/marker/field.h>

#define MS 1000000u
#define WITHOUT 0u /* the classes of samples */
#define OWN 1u	   /* with callers */
#define BEHIND 2   /* of a block: the address behind it is 4 bytes on */
#define KERNEL UINT64_C(0xffffffff81000000)

static struct sample_trail made_trail;
static struct sample packet;
static struct trace_reader *reader;
static struct images images;
static struct samples samples;
static int kernel;

static void ran(uint64_t start, enum trail_kind kind, uint64_t target)
{
	const struct trail_entry entry = { .start = start,
					   .target = target,
					   .bytes = 4,
					   .last = BEHIND,
					   .instructions = 2,
					   .kind = (uint8_t)kind };

	sample_trail_ran(&made_trail, &entry, NULL);
}

/* The thread sleeps for a moment, and continues at `at`. The blocks before get this time. */
static void time_is(uint64_t ms, uint64_t at)
{
	made_trail.now = ms * MS - 1;
	sample_trail_event(&made_trail, TRAIL_DEPART, at, 0, 0, 0);
	sample_trail_event(&made_trail, TRAIL_ARRIVE, at, 0, 0, 0);
}

/* main calls f, which calls g; both come back. */
static void main_f_g(uint64_t main)
{
	ran(main, TRAIL_CALL, F);
	ran(F, TRAIL_CALL, G);
	ran(G, TRAIL_RETURN, 0);
	ran(F + 4, TRAIL_RETURN, 0);
}

static void sampled(unsigned int class, uint64_t ms, uint32_t tid, uint64_t ip)
{
	sample_event(&packet, class, ms * MS + MS / 2, 1);
	sample_u32(&packet, SAMPLE_TRAIL_PID);
	sample_u32(&packet, tid);
	sample_u64(&packet, ip);
	if (class == OWN) {
		sample_u8(&packet, FIELD_WHOLE);
		sample_u32(&packet, 2);
		sample_u64(&packet, ip);
		sample_u64(&packet, MAIN + 4);
	}
}

static void put_trail(void)
{
	sample_trail_thread(&made_trail, SAMPLE_TRAIL_PID, "name");
	main_f_g(MAIN);
	time_is(1, MAIN + 4);
	main_f_g(MAIN + 4);
	/* more than one event has: two have this time */
	for (int i = 0; i < 1500; i++) {
		made_trail.now = 2 * MS - 1;
		ran(MAIN + 8, TRAIL_BRANCH, MAIN + 8);
	}
	ran(MAIN + 8, TRAIL_CALL, G);
	ran(G, TRAIL_RETURN, 0);
	time_is(2, MAIN + 12);
	ran(MAIN + 12, TRAIL_CALL, F);
	ran(F, TRAIL_CALL, G);
	ran(G, TRAIL_CALL, SWAP);
	ran(SWAP, TRAIL_RETURN, 0);
	ran(G + 4, TRAIL_RETURN, 0);
	ran(F + 4, TRAIL_RETURN, 0);
	ran(MAIN + 16, TRAIL_CALL, G);
	ran(G, TRAIL_CALL, SWAP);
	ran(SWAP, TRAIL_RETURN, 0);
	ran(G + 4, TRAIL_RETURN, 0);
	/* f is left at once, or calls itself before */
	for (uint64_t times = 1; times <= 2; times++) {
		ran(MAIN + 16 + 4 * times, TRAIL_CALL, F);
		for (uint64_t i = 1; i < times; i++)
			ran(F, TRAIL_CALL, F);
		ran(F, TRAIL_CALL, THUNK);
		ran(THUNK, TRAIL_RETURN, 0);
		for (uint64_t i = 0; i < times; i++)
			ran(F + 4, TRAIL_RETURN, 0);
	}
	time_is(3, MAIN + 28);
	sample_trail_event(&made_trail, TRAIL_LOST, 0, 0, 0, 0);
	ran(MAIN + 32, TRAIL_CALL, G);
	ran(G, TRAIL_RETURN, 0);
	time_is(4, MAIN + 36);
	/* the thread may have been in the loss, though the trail has g behind it */
	sample_trail_event(&made_trail, TRAIL_LOST, 0, 0, 0, 0);
	ran(HANDLER, TRAIL_CALL, G);
	ran(G, TRAIL_RETURN, 0);
	time_is(5, HANDLER + 4);
	/* met midway: the trail does not have its callers */
	sample_trail_event(&made_trail, TRAIL_LOST, 0, 0, 0, 0);
	ran(F + 4, TRAIL_BRANCH, F + 8);
	time_is(6, F + 8);
	ran(F + 8, TRAIL_CALL, LONGJMP);
	ran(LONGJMP, TRAIL_RETURN, 0);
	time_is(7, F + 12);
	sample_trail_thread_end(&made_trail);
}

static void put_samples(void)
{
	const struct trace_process about = { .pid = 0,
					     .exe = "kernel",
					     .hostname = "h",
					     .clock = STORE_CLOCK_MONOTONIC,
					     .ticks_hz = 1000000000 };

	kernel = trace_process_add(made_trail.writer, &about);
	cr_assert_geq(kernel, 0);
	trace_event_add(made_trail.writer, kernel, WITHOUT,
			SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_PTR),
			"mk\nsample\nbare\nkernel\n0\npid,tid,ip");
	trace_event_add(made_trail.writer, kernel, OWN,
			SAMPLE_TYPES(WM_TYPE_I32, WM_TYPE_I32, WM_TYPE_PTR, WM_TYPE_ADDRESSES),
			"mk\nsample\nown\nkernel\n0\npid,tid,ip,callchain");
	packet.head = (struct wm_packet){ .instance = 2000, .comm = "cpu0" };
	sample_begin(&packet, MS / 2);
	sampled(WITHOUT, 0, SAMPLE_TRAIL_PID, G);
	sampled(WITHOUT, 0, 77, G);
	sampled(WITHOUT, 1, SAMPLE_TRAIL_PID, G + 2);
	sampled(WITHOUT, 1, SAMPLE_TRAIL_PID, F);
	sampled(WITHOUT, 1, SAMPLE_TRAIL_PID, HANDLER);
	sampled(WITHOUT, 1, SAMPLE_TRAIL_PID, KERNEL);
	sampled(OWN, 1, SAMPLE_TRAIL_PID, G + 2);
	sampled(WITHOUT, 2, SAMPLE_TRAIL_PID, SWAP);
	sampled(WITHOUT, 2, SAMPLE_TRAIL_PID, SWAP);
	sampled(WITHOUT, 2, SAMPLE_TRAIL_PID, THUNK);
	sampled(WITHOUT, 3, SAMPLE_TRAIL_PID, G);
	sampled(WITHOUT, 4, SAMPLE_TRAIL_PID, G);
	sampled(WITHOUT, 6, SAMPLE_TRAIL_PID, LONGJMP);
	sampled(WITHOUT, 9, SAMPLE_TRAIL_PID, G);
	cr_assert_eq(sample_write(&packet, made_trail.writer, kernel), 0);
	sample_release(&packet);
}

static void begin(void)
{
	sample_trail_begin(&made_trail);
	sample_trail_module(&made_trail, CALLS_FIXTURE, 0, NULL, 0);
	put_trail();
	put_samples();
	sample_trail_close(&made_trail);
	packet = (struct sample){ 0 };
	cr_assert_eq(trace_reader_open(&reader, made_trail.folder), 0);
}

static void end(void)
{
	samples_close(&samples);
	images_close(&images);
	trace_reader_close(reader);
	sample_trail_remove(&made_trail);
}

TestSuite(samples_trail, .init = begin, .fini = end);

/* "outer;inner" of a sum's functions, written from its end. */
static const char *functions_text(const struct samples_sum *sum)
{
	static char line[4096];
	char *at = line + sizeof(line) - 1, text[FUNCTION_TEXT_BYTES];
	const struct stacks_one *all = samples.stacks.all;

	for (uint32_t number = sum->stack; all[number].function; number = all[number].outer) {
		const char *name = function_text(all[number].function, text, sizeof(text));
		size_t bytes = strlen(name);

		if (*at)
			*--at = ';';
		at -= bytes;
		memcpy(at, name, bytes);
	}
	return at;
}

static void expect(uint32_t tid, uint64_t address, uint64_t count, const char *functions)
{
	for (size_t i = 0; i < samples.sum_count; i++)
		if (samples.threads[samples.sums[i].thread].tid == tid &&
		    samples.sums[i].address == address && samples.sums[i].count == count &&
		    !strcmp(functions_text(&samples.sums[i]), functions))
			return;
	for (size_t i = 0; i < samples.sum_count; i++)
		fprintf(stderr, "%u %lx: %lu of %s\n", samples.threads[samples.sums[i].thread].tid,
			samples.sums[i].address, samples.sums[i].count,
			functions_text(&samples.sums[i]));
	cr_assert_fail("not there: %s", functions);
}

static void read_samples(int wants_trails)
{
	const struct samples_options options = { .wants_trails = wants_trails };

	cr_assert_eq(images_open(&images, reader, NULL), 0);
	cr_assert_eq(samples_open(&samples, &images, &options), 0);
	cr_assert_eq(samples_read(&samples, NULL, NULL), 0);
}

Test(samples_trail, callers_are_what_all_places_of_the_instruction_have_in_common)
{
	read_samples(1);
	expect(SAMPLE_TRAIL_PID, G, 1, "main;f;g");
	expect(SAMPLE_TRAIL_PID, G + 2, 1, "main;[unknown];g");
	expect(SAMPLE_TRAIL_PID, F, 1, "main;f");
	expect(SAMPLE_TRAIL_PID, SWAP, 2, "main;[unknown];g;swap");
	/* one f both begins and ends them; it counts once */
	expect(SAMPLE_TRAIL_PID, THUNK, 1, "main;f;[unknown];thunk");
	cr_expect_eq(samples.events[0].count, 13);
	cr_expect(samples.events[0].has_stacks);
}

Test(samples_trail, what_the_trail_does_not_have_is_unknown)
{
	read_samples(1);
	expect(SAMPLE_TRAIL_PID, HANDLER, 1, "[unknown];handler");
	expect(SAMPLE_TRAIL_PID, KERNEL, 1, "main;[unknown];[kernel]");
	/* behind a loss, main is a guess; behind the trail's end nothing is known */
	expect(SAMPLE_TRAIL_PID, G, 2, "[unknown];g");
	expect(SAMPLE_TRAIL_PID, LONGJMP, 1, "[unknown];f;longjmp");
	expect(SAMPLE_TRAIL_PID, G, 1, "g");
	expect(77, G, 1, "g");
	/* all but the first, the one in f, and two without a trail at their time */
	cr_expect_eq(samples.events[0].cut, 9);
}

Test(samples_trail, callers_that_were_recorded_count)
{
	read_samples(1);
	cr_assert_eq(samples.event_count, 2);
	cr_expect_str_eq(samples.events[1].name, "sample:own");
	for (size_t i = 0; i < samples.sum_count; i++)
		if (samples.sums[i].event == 1)
			cr_expect_str_eq(functions_text(&samples.sums[i]), "main;g");
}

Test(samples_trail, trails_are_not_read_unless_they_are_wanted)
{
	read_samples(0);
	expect(SAMPLE_TRAIL_PID, G, 4, "g");
	cr_expect(!samples.events[0].has_stacks);
}
