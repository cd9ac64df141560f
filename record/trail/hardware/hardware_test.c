/* SPDX-License-Identifier: MIT */
/*
 * Recordings by Branch Trace Store. Tests that need the unit itself are skipped on other
 * processors.
 */
#include "record/trail/hardware/weave.h"
#include "record/trail/testing/hardware_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/error.h>

TestSuite(hardware, .init = fixture_begin, .fini = fixture_end, .timeout = 120);

/* ---- Branch Trace Store ---- */

static void bts_of(char mode, int gaps)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, perf.area_bytes, 0);
	perf.area_head = perf.area_bytes;
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0, "%s", detail);
	is_the_same(gaps);
	cr_expect_eq(perf.attr.type, 9);
	cr_expect_geq(perf.enabled, 1);
}

Test(hardware, records_loops_by_bts)
{
	bts_of('l', 0);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, records_calls_by_bts)
{
	bts_of('c', 0);
}

Test(hardware, records_signals_by_bts)
{
	bts_of('s', 2); /* to the handler, and out of it */
}

Test(hardware, records_up_to_a_fault_by_bts)
{
	bts_of('f', 0);
	is_over(TRAIL_KILLED, SIGSEGV);
}

Test(hardware, takes_an_area_in_pieces_that_go_round)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };
	static uint8_t all[BUFFER];
	uint64_t start = 5 * (uint64_t)BUFFER - 7 * BTS_RECORD_BYTES, half;

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	memcpy(all, perf.area, sizeof(all));
	for (size_t i = 0; i < perf.area_bytes; i++)
		perf.area[(start + i) % BUFFER] = all[i];
	half = perf.area_bytes / BTS_RECORD_BYTES / 2 * BTS_RECORD_BYTES;
	switch_record(1, 500);
	area_record(start, half, 0);
	switch_record(0, 600);
	area_record(start + half, perf.area_bytes - half, 0);
	perf.area_head = start + perf.area_bytes;
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	is_the_same(0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_DEPART), 1);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_ARRIVE), 1);
}

/* Which flags say that something is missing. */
static void flag(uint64_t flags, int losses)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	store_branches(put_bts, 1);
	area_record(0, 5 * BTS_RECORD_BYTES, flags);
	area_record(5 * BTS_RECORD_BYTES, perf.area_bytes - 5 * BTS_RECORD_BYTES, 0);
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), losses, "%s", sample_sink_text(&sink));
}

Test(hardware, says_lost_where_the_area_was_full)
{
	flag(PERF_AUX_FLAG_TRUNCATED, 1);
}

Test(hardware, says_lost_where_the_area_has_gaps)
{
	flag(PERF_AUX_FLAG_PARTIAL, 1);
}

Test(hardware, says_lost_where_records_collided)
{
	flag(PERF_AUX_FLAG_COLLISION, 1);
}

Test(hardware, says_lost_where_records_were)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	record(PERF_RECORD_LOST, 0, (uint64_t[]){ 1, 12, 0, 1 }, 32);
	record(PERF_RECORD_AUX, 0, (uint64_t[]){ 1 }, 8); /* too short to be one */
	record(99, 0, (uint64_t[]){ 0, 1 }, 16);	  /* of a kernel to come */
	cr_assert_eq(launch(ORIGIN_BTS, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 2, "%s", sample_sink_text(&sink));
}

/* Nor an event that it has no buffer either. */
Test(hardware, writes_nothing_of_a_thread_that_there_is_no_room_for)
{
	char *argv[] = { PROGRAM, NULL };

	sink.has_no_room = 1;
	perf.refuses_map = -ENOMEM;
	cr_expect_eq(launch(ORIGIN_BTS, argv), -ENOMEM);
	cr_expect_eq(sink.count, 0);
}

/* ---- a processor ---- */

/* The blocks of the origin step, without those that differ between two runs of the program. */
static void by_the_processor(enum origin origin)
{
	char *argv[] = { PROGRAM, (char *)"l", NULL };
	struct origin_state states[ORIGINS];

	origins_look(states, NULL);
	if (states[origin].error) {
		char why[320];

		snprintf(why, sizeof(why), "%s: %s%s%s", origin_name(origin),
			 wm_error_text(states[origin].error), states[origin].detail[0] ? ": " : "",
			 states[origin].detail);
		cr_skip_test("%s", why);
	}
	items = sample_stepped(argv, &count);
	how.machine = (struct origin_machine){ .root = NULL };
	perf.closed = 2;
	cr_assert_eq(launch(origin, argv), 0, "%s", detail);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 0, "%s", detail);
	cr_expect_geq(sample_sink_blocks(&sink), count / 2);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware, pt_of_this_processor)
{
	by_the_processor(ORIGIN_PT);
}

Test(hardware, bts_of_this_processor)
{
	by_the_processor(ORIGIN_BTS);
}
