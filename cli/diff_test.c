/* SPDX-License-Identifier: MIT */
/* waymark diff as a command, on runs of tests/targets/parts.S that were stepped through. */
#include "cli/command_test.h"
#include "record/trail/testing/steps.h"
#include "trace/testing/packets.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char a[64], b[80];

static void end(void)
{
	sample_folder_remove(a);
	if (*b)
		sample_folder_remove(b);
}

/* A run of the program. */
static void record(char *folder, char *way, char *signals)
{
	cr_assert(WIFEXITED(sample_steps(folder, (char *[]){ PROGRAM, way, signals, NULL })));
}

TestSuite(diff, .fini = end, .timeout = 100);

Test(diff, shows_the_branch_that_went_the_other_way)
{
	record(a, "same", NULL);
	record(b, "other", NULL);
	cr_assert_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 1, "%s", printed);
	/*
	 * the begin, the system call, the first call; 200 turns of 4 blocks with 8 instructions; 2
	 * of the next
	 */
	expect("the same path for 805 blocks (1,612 instructions), then they part\n");
	expect("\nafter ");
	expect(" turn+0xc ");
	expect("parts.S    49\n");
	expect("\nA                continues at  0x");
	expect(" turn+0xe ");
	expect("\nB                continues at  0x");
	expect(" turn+0x13 ");
	expect("\ncalled from (A) ");
	expect(" _start+0x");
	expect("harmless before that:\nCOUNT  WHAT\n");
	expect("    1  another result of system call getpid\n");

	cr_assert_eq(shell(WAYMARK_COMMAND " diff --json -n 2 %s %s", a, b), 1, "%s", printed);
	expect("\"different\":true,\"blocks\":805,\"instructions\":1612,\"unsure\":false");
	expect("\"count\":1,\"what\":\"another result of system call getpid\",");
	expect("\"step\":\"after\",\"what\":null,\"address\":\"0x");
	expect("\"function\":\"turn\",\"linkage\":\"turn\",\"module\":");
	expect("\"step\":\"B\",\"what\":\"continues at\",\"address\":\"0x");

	cr_assert_eq(shell(WAYMARK_COMMAND " diff --harmless turn %s %s", a, b), 0, "%s", printed);
	expect("    1  another way in turn of parts ");
}

/* What the compiler made of turn(int) is turn too. */
Test(diff, copies_of_a_function_are_as_harmless_as_it)
{
	char program[] = "/tmp/waymark-diff-XXXXXX";
	int fd;

	if (shell("command -v objcopy"))
		cr_skip_test("no objcopy");
	fd = mkstemp(program);
	cr_assert(fd >= 0);
	close(fd);
	cr_assert_eq(shell("objcopy --redefine-sym turn=_Z4turni.isra.0 " PROGRAM
			   " %s && chmod +x %s",
			   program, program),
		     0, "%s", printed);
	cr_assert(WIFEXITED(sample_steps(a, (char *[]){ program, "same", NULL, NULL })));
	cr_assert(WIFEXITED(sample_steps(b, (char *[]){ program, "other", NULL, NULL })));
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --harmless turn %s %s", a, b), 0, "%s", printed);
	expect("    1  another way in turn [clone .isra.0] of waymark-diff-");
	unlink(program);
}

Test(diff, compares_a_stretch)
{
	record(a, "same", NULL);
	record(b, "other", NULL);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --to block:805 %s %s", a, b), 0, "%s", printed);
	expect("the same path for 805 blocks (1,612 instructions)\n");
	expect("trails have no data: on the same path the values may differ");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff -n 2 --from block:800 %s %s", a, b), 1, "%s",
		     printed);
	expect("the same path for 5 blocks (");
	expect(" turn+0xe ");
	expect(" _start+0x"); /* what called it is known from before */
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --from event:trail:end %s %s", a, b), 0, "%s",
		     printed);
	expect("the same path for 0 blocks");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --to block:805 --from block:9000 %s %s", a, b),
		     2);
	expect("is after");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --from 99 %s %s", a, b), 2, "%s", printed);
	expect("no trail has anything between 99 and its end");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --from event:no:such %s %s", a, b), 2);
	expect("no:such");
}

Test(diff, finds_two_runs_the_same_though_signals_came_at_other_moments)
{
	record(a, "same", "signals");
	record(b, "same", "signals");
	cr_assert_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 0, "%s", printed);
	expect("  SIGALRM  ");
	expect_not("part\n");
	cr_assert_eq(shell(WAYMARK_COMMAND " diff --strict %s %s", a, b), 1, "%s", printed);
	expect("then they part\n");
}

Test(diff, finds_the_branch_among_signals_too)
{
	record(a, "same", "signals");
	record(b, "other", NULL);
	/* the set-up of the signals is another way in itself */
	cr_assert_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 1, "%s", printed);
	expect(" _start+0x");
	sample_folder_remove(b);
	record(b, "other", "signals");
	cr_assert_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 1, "%s", printed);
	expect(" turn+0xe ");
	expect(" turn+0x13 ");
}

Test(diff, says_what_can_not_be_compared)
{
	char name[256];

	record(a, "same", NULL);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", a, a), 0, "%s", printed);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s", a), 2);
	expect("name the folders of two traces");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s /nonexistent", a), 2);
	expect("/nonexistent");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s /", a), 2);
	expect("no trace");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --tid 5 %s %s", a, a), 2);
	expect("--tid takes one of A and one of B, as 12:34, not 5");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --tid 5:6 %s %s", a, a), 2);
	expect("the trace has no such thing: a trail of thread 5: ");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --last x %s %s", a, a), 2);
	expect("--last takes a number from 0 to 1000000, not x");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --no-such %s %s", a, a), 2);

	/* what is damaged is not said to be the same */
	snprintf(name, sizeof(name), "cp -r %s %s-copy", a, a);
	cr_assert_eq(system(name), 0);
	snprintf(b, sizeof(b), "%s-copy", a);
	snprintf(name, sizeof(name), "truncate -s 2000 %s/*-1", b);
	cr_assert_eq(system(name), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 2, "%s", printed);
	expect("cut in a packet");
}

/* A loop's turns; then it exits, is let go, or the recording is cut off. */
static void made(char *dir, int turns, int has_end, uint64_t reason)
{
	static const struct trail_entry turn = { 0x1000, 0x1000, 2, 0, 1, TRAIL_BRANCH, 0 };
	struct sample_trail sample;

	sample_trail_begin(&sample);
	sample_trail_thread(&sample, 101, "made");
	for (int i = 0; i < turns; i++)
		sample_trail_ran(&sample, &turn, "\x74\xfe");
	if (has_end)
		sample_trail_event(&sample, TRAIL_END, 0, 0, reason, 0);
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
	snprintf(dir, sizeof(a), "%s", sample.folder);
}

Test(diff, does_not_say_that_a_run_is_the_same_which_was_cut_off)
{
	made(a, 5, 1, TRAIL_EXITED);
	made(b, 3, 0, 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 2, "%s", printed);
	expect("B's recording was over then, A's was not\n");
	expect("waymark: the trail of made-101 has no end: its recording was cut off\n");
	/* nor of two that were cut off at the same place */
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", b, b), 2, "%s", printed);
}

Test(diff, compares_processes_that_are_named)
{
	made(a, 5, 1, TRAIL_EXITED);
	made(b, 5, 1, TRAIL_EXITED);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --pid 100:100 %s %s", a, b), 0, "%s", printed);
	expect("the same path for 5 blocks");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --pid 100:7 %s %s", a, b), 2);
	expect("no such thing: a trail of that process");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff --pid 100 %s %s", a, b), 2);
	expect("--pid takes one of A and one of B, as 12:34, not 100");
}

Test(diff, does_not_say_that_a_run_is_the_same_which_was_recorded_for_less_long)
{
	made(a, 5, 1, TRAIL_EXITED);
	made(b, 3, 1, TRAIL_DETACHED);
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", a, b), 2, "%s", printed);
	expect("the same path for 3 blocks (3 instructions)\n");
	expect("B's recording was over then, A's was not\n");
	cr_expect_eq(shell(WAYMARK_COMMAND " diff %s %s", b, b), 0, "%s", printed);
}
