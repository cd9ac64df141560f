/* SPDX-License-Identifier: MIT */
/* What waymark trail says that a trail lacks. */
#include "cli/command_test.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>

static const struct trail_entry head = { 0x1000, 0x1000, 2, 0, 1, TRAIL_BRANCH, 0 };
static const struct trail_entry leaves = { 0x1040, 0, 7, 5, 2, TRAIL_SYSCALL, 0 };

static struct sample_trail sample;

static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, 101, "loops");
}

static void ran(const struct trail_entry *entry)
{
	sample_trail_ran(&sample, entry, entry == &head ? "\x74\xfe" : "\xb8\1\0\0\0\x0f\5");
}

static void done(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
}

static void end(void)
{
	sample_trail_remove(&sample);
}

static int run(const char *arguments)
{
	return shell("timeout 60 %s trail %s %s", WAYMARK_COMMAND, arguments, sample.folder);
}

TestSuite(trail_lost, .fini = end, .timeout = 60);

Test(trail_lost, says_what_a_sum_lacks)
{
	static const char *const sums[] = { "--blocks", "--functions", "--calls" };

	begin();
	ran(&head);
	sample_trail_event(&sample, TRAIL_LOST, 0, 0, 1234, 0);
	ran(&head);
	sample_trail_event(&sample, TRAIL_LOST, 0, 0, 0, 0);
	ran(&leaves);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, 60, 0);
	sample_trail_event(&sample, TRAIL_GAP, 0, 0, TRAIL_GAP_NATIVE, 0);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_EXITED, 0);
	done();
	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		cr_expect_eq(run(sums[i]), 0, "%s", printed);
		expect("waymark: the trail of loops-101 lacks the blocks that were lost at 2 "
		       "places (1,234 that are known of) and what ran unrecorded at 1 place\n");
		expect_not("has no end");
	}
	cr_expect_eq(run("--functions --from block:2"), 0);
	expect("loops-101 lacks what ran unrecorded at 1 place\n");
	cr_expect_eq(run("--functions --from block:1"), 0);
	expect("lost at 1 place and what");
	cr_expect_eq(run(""), 0); /* where all of it is there */
	expect_not("lacks");
}

Test(trail_lost, says_that_a_recording_was_cut_off)
{
	begin();
	ran(&head);
	ran(&head);
	done();
	cr_expect_eq(run(""), 0);
	expect("waymark: the trail of loops-101 has no end: its recording was cut off\n");
	cr_expect_eq(run("--functions"), 0);
	expect("has no end");
	cr_expect_eq(run("--functions --to block:1"), 0);
	expect_not("has no end");
}
