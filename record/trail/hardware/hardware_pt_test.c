/* SPDX-License-Identifier: MIT */
/* Recordings by Intel PT. */
#include "record/trail/testing/hardware_fixture.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(hardware_pt, .init = fixture_begin, .fini = fixture_end, .timeout = 120);

/* ---- Processor Trace ---- */

static void pt_of(char mode, int gaps)
{
	char *argv[] = { PROGRAM, (char[]){ mode, '\0' }, NULL };

	items = sample_stepped(argv, &count);
	pt_store(1);
	area_record(0, 20, 0);
	area_record(20, perf.area_bytes - 20, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_str_empty(detail);
	is_the_same(gaps);
	cr_expect_eq(perf.attr.type, 8);
}

Test(hardware_pt, records_loops_by_pt)
{
	pt_of('l', 0);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware_pt, records_signals_by_pt)
{
	pt_of('s', 2);
}

Test(hardware_pt, records_a_fault_by_pt)
{
	pt_of('f', 0);
	is_over(TRAIL_KILLED, SIGSEGV);
}

Test(hardware_pt, decodes_what_is_too_much_to_be_held)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };
	size_t half;

	items = sample_stepped(argv, &count);
	pt_store(0);
	half = perf.area_bytes * 3 / 4;
	how.machine.held_bytes = half;
	area_record(0, half, 0);
	area_record(half, perf.area_bytes - half, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	/* behind the seam decoding has no place to begin; the part before it is there */
	cr_expect_gt(sample_sink_blocks(&sink), 3);
	is_over(TRAIL_EXITED, 7);
}

Test(hardware_pt, says_what_packets_were_not_understood)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	pt_store(0);
	memset(perf.area + perf.area_bytes / 2, 0xff, perf.area_bytes / 2);
	area_record(0, perf.area_bytes, 0);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 1);
	cr_expect(strstr(detail, "at byte") != NULL, "%s", detail);
}

Test(hardware_pt, says_lost_where_packets_had_no_room)
{
	char *argv[] = { PROGRAM, (char *)"c", NULL };

	items = sample_stepped(argv, &count);
	pt_store(0);
	area_record(0, perf.area_bytes, PERF_AUX_FLAG_TRUNCATED);
	cr_assert_eq(launch(ORIGIN_PT, argv), 0);
	cr_expect_eq(sample_sink_events(&sink, TRAIL_LOST), 1);
}
