/* SPDX-License-Identifier: MIT */
/*
 * waymark trail as a command: what it prints and returns, of trails made by hand, good and bad
 * ones.
 */
#include "cli/command_test.h"
#include "record/trail/testing/steps.h"
#include "trace/testing/packets.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

#define TID 101

/* A loop that calls a function, and a system call. */
enum { HEAD, CALLS, CALLEE, TAIL, LEAVES, BLOCKS };

static const struct trail_entry entries[BLOCKS] = {
	[HEAD] = { 0x1000, 0x1040, 5, 3, 2, TRAIL_BRANCH, 0 },
	[CALLS] = { 0x1005, 0x2000, 5, 0, 1, TRAIL_CALL, 0 },
	[CALLEE] = { 0x2000, 0, 4, 3, 2, TRAIL_RETURN, 0 },
	[TAIL] = { 0x100a, 0x1000, 2, 0, 1, TRAIL_JUMP, 0 },
	[LEAVES] = { 0x1040, 0, 7, 5, 2, TRAIL_SYSCALL, 0 },
};
static const char *const codes[BLOCKS] = {
	[HEAD] = "\x83\xf9\x05\x74\x3b",	   /* cmp $5,%ecx; je 0x1040 */
	[CALLS] = "\xe8\xf6\x0f\x00\x00",	   /* call 0x2000 */
	[CALLEE] = "\x8d\x49\x01\xc3",		   /* lea 1(%rcx),%ecx; ret */
	[TAIL] = "\xeb\xf4",			   /* jmp 0x1000 */
	[LEAVES] = "\xb8\x01\x00\x00\x00\x0f\x05", /* mov $1,%eax; syscall */
};

static struct sample_trail sample;

static void ran(int which)
{
	sample_trail_ran(&sample, &entries[which], codes[which]);
}

static void turns(int count)
{
	for (int i = 0; i < count; i++) {
		ran(HEAD);
		ran(CALLS);
		ran(CALLEE);
		ran(TAIL);
	}
}

/* Run waymark trail with these arguments and the trace behind them. Returns its exit status. */
static int run_shell(const char *before, const char *arguments, const char *behind)
{
	return shell("%s %s trail %s %s %s", before, WAYMARK_COMMAND, arguments, sample.folder,
		     behind);
}

static int run(const char *arguments)
{
	return run_shell("timeout 60", arguments, "");
}

static int count_of(const char *text)
{
	int count = 0;

	for (const char *at = printed; (at = strstr(at, text)); at += strlen(text))
		count++;
	return count;
}

static void end(void)
{
	sample_trail_remove(&sample);
}

static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, TID, "loops");
}

static void done(void)
{
	sample_trail_thread_end(&sample);
	sample_trail_close(&sample);
}

/* Three turns, the way out, a write, the end; beside it two markers. */
static void simple(void)
{
	begin();
	turns(3);
	ran(HEAD);
	ran(LEAVES);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, 1, 5);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_EXITED, 3);
	sample_trail_thread_end(&sample);
	sample_trail_marker(&sample, (uint64_t[]){ 1004, 1016 }, 2);
	sample_trail_close(&sample);
}

Test(trail_command, lists_branches_and_what_came_between, .fini = end)
{
	simple();
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("loops-101 (process 100), by step: 14 blocks, 0.000000000 to 0.000000016 s\n");
	expect("             1  0x1005                                        call   -> 0x2000\n");
	expect("             2  0x2003                                        ret    -> 0x100a\n");
	expect("             3  0x100a                                        jmp    -> 0x1000\n");
	expect("            12  0x1003                                        je     -> 0x1040\n");
	expect_not("     0  0x1003"); /* not taken */
	expect("   0.000000015  system call write = 5 at 0x1047\n");
	cr_expect_str_eq(strrchr(printed, ' ') - strlen("ended: exited with"),
			 "ended: exited with 3\n");
}

Test(trail_command, lists_the_last_so_many, .fini = end)
{
	simple();
	cr_assert_eq(run("-n 2"), 0, "%s", printed);
	expect("            11  0x100a");
	expect("            12  0x1003");
	cr_expect_eq(count_of("->"), 2, "%s", printed);
	expect("ended");
	cr_assert_eq(run("--last 0"), 0);
	cr_expect_eq(count_of("->"), 10, "%s", printed);
	cr_assert_eq(run("--instructions -n 3"), 0);
	expect("            12  0x1003                                        je 0x1040\n"
	       "            13  0x1040                                        mov $0x1, %eax\n"
	       "            13  0x1045                                        syscall\n");
	cr_expect_eq(count_of("0x1000"), 0, "%s", printed);
}

Test(trail_command, lists_instructions_in_either_syntax, .fini = end)
{
	simple();
	cr_assert_eq(run("--instructions -n 0"), 0, "%s", printed);
	cr_expect_eq(count_of("cmp $0x5, %ecx"), 4);
	cr_expect_eq(count_of("lea 0x1(%rcx), %ecx"), 3);
	cr_assert_eq(run("--instructions --intel -n 0"), 0, "%s", printed);
	cr_expect_eq(count_of("cmp ecx, 0x5"), 4);
}

Test(trail_command, counts_blocks_and_where_they_led, .fini = end)
{
	simple();
	cr_assert_eq(run("--blocks"), 0, "%s", printed);
	expect("14 blocks ran, 5 different; the 5 that ran most:\n"
	       "             4  0x1000 ");
	expect("                   3 -> 0x1005\n"
	       "                   1 -> 0x1040\n");
	expect("-> an event, or the end");
	expect_not("cmp");
	cr_assert_eq(run("--blocks -v -n 1"), 0, "%s", printed);
	expect("                0x1000  cmp $0x5, %ecx\n");
	cr_expect_eq(count_of(" instruction"), 1);
	cr_assert_eq(run("--blocks --json -n 1"), 0, "%s", printed);
	expect("{\"type\":\"block\",\"pid\":100,\"space\":0,\"id\":0,\"count\":4,");
	expect("\"elsewhere\":0,\"address\":\"0x1000\",");
	expect("{\"type\":\"block_next\",\"space\":0,\"id\":0,\"next\":1,\"count\":3,");
}

Test(trail_command, takes_stretches, .fini = end)
{
	simple();
	cr_assert_eq(run("--from block:4 --to block:8"), 0, "%s", printed);
	expect("             5  0x1005");
	cr_expect_eq(count_of("->"), 3, "%s", printed);
	cr_assert_eq(run("--from marker:db:query#2"), 0);
	cr_expect_eq(count_of("->"), 0, "%s", printed);
	expect("ended");
	cr_assert_eq(run("--to event:db:query"), 0);
	expect_not("write");
	cr_expect_eq(count_of("->"), 10, "%s", printed);
	cr_assert_eq(run("--from event:trail:end"), 0);
	expect("ended");
	expect_not("write");
	cr_assert_eq(run("--from 0.000000015 --to 0.000000015"), 0);
	expect("write");
	expect_not("ended");
	cr_assert_eq(run("--to 0.000000001"), 0, "%s", printed);
	cr_assert_eq(run("--blocks --from block:12"), 0);
	expect("2 blocks ran, 2 different");
}

Test(trail_command, says_that_a_stretch_is_empty, .fini = end)
{
	static const char *const ways[] = { "", "--json", "--blocks", "--calls", "--functions" };
	char words[100];

	simple();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		snprintf(words, sizeof(words), "%s --from 1000", ways[i]);
		cr_expect_eq(run(words), 1, "%s", words);
		expect("no trail has anything between 1000 and its end: ");
		expect_not("\\x0a");
		snprintf(words, sizeof(words), "%s --from block:99999999", ways[i]);
		cr_expect_eq(run(words), 1, "%s", words);
	}
}

Test(trail_command, refuses_what_is_no_stretch, .fini = end)
{
	simple();
	cr_expect_eq(run("--from block:9 --to block:3"), 2);
	expect("--from block:9 is after --to block:3");
	cr_expect_eq(run("--from 2 --to 1.5"), 2);
	cr_expect_eq(run("--from marker:db:query#2 --to marker:db:query#1"), 2);
	cr_expect_eq(run("--from soon"), 2);
	expect("--from takes a time (5, 1.5s, 300us), marker:SUBSYS:EVENT");
	for (size_t i = 0; i < 8; i++) {
		static const char *const bad[] = { "block:",	   "block:x",	  "block:-1",
						   "marker:x",	   "marker:a:b#", "marker:a:b#0",
						   "marker:a:b#x", "''" };
		char words[64];

		snprintf(words, sizeof(words), "--to %s", bad[i]);
		cr_expect_eq(run(words), 2, "%s: %s", bad[i], printed);
	}
	cr_expect_eq(run("--from marker:db:qeury"), 1);
	expect("the trace has no such thing: db:qeury\n  did you mean db:query?");
	cr_expect_eq(run("--from marker:db:query#3"), 1);
	expect("marker:db:query#3; it has 2 of db:query");
	cr_expect_eq(run("--from event:trail:signal#99"), 1);
	expect("event:trail:signal#99; it has 0 of trail:signal");
	expect_not("did you mean");
}

Test(trail_command, refuses_bad_numbers_and_options, .fini = end)
{
	static const char *const bad[] = { "-n x",
					   "-n -1",
					   "-n 1.5",
					   "-n ''",
					   "--tid x",
					   "--pid 4294967296",
					   "-n 99999999999999999999" };

	simple();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(run(bad[i]), 2, "%s: %s", bad[i], printed);
		expect(" takes a number from ");
	}
	cr_expect_eq(run("--no-such-thing"), 2);
	cr_expect_eq(run("another"), 2);
	expect("only one folder");
}

Test(trail_command, knows_which_threads_there_are, .fini = end)
{
	begin();
	turns(1);
	sample_trail_thread_end(&sample);
	sample_trail_thread(&sample, 102, "other");
	turns(2);
	done();
	cr_assert_eq(run(""), 0);
	expect("loops-101");
	expect("other-102");
	cr_assert_eq(run("--tid 102"), 0);
	expect_not("loops-101");
	expect("other-102");
	cr_assert_eq(run("--pid 100"), 0);
	expect("loops-101");
	cr_expect_eq(run("--tid 7"), 1);
	expect("no such thing: a trail of --tid 7");
	expect("loops (--tid 101, --pid 100), other (--tid 102, --pid 100)\n");
	cr_expect_eq(run("--pid 7 --blocks"), 1);
	cr_expect_eq(run("--pid 100 --tid 7 --instructions"), 1);
	expect("--tid 7 --pid 100");
}

Test(trail_command, says_events_in_words, .fini = end)
{
	begin();
	ran(CALLS);
	sample_trail_event(&sample, TRAIL_DEPART, 0x2000, 0, 0, 0);
	sample_trail_event(&sample, TRAIL_ARRIVE, 0x2000, 0, 0, 0);
	ran(CALLEE);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0x2003, 1, 11, 0x1040);
	ran(LEAVES);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1047, 0, 2, (uint64_t)-2);
	sample_trail_event(&sample, TRAIL_FORK, 0x1047, 0, 4242, 0);
	sample_trail_event(&sample, TRAIL_GAP, 0x1040, 0, TRAIL_GAP_SUSPENDED, 0);
	sample_trail_event(&sample, TRAIL_GAP, 0x1040, 0, TRAIL_GAP_BREAKPOINT, 0);
	ran(LEAVES);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0x1040, 0, 34, (uint64_t)-514);
	sample_trail_event(&sample, TRAIL_LOST, 0x1040, 0, 1, 0);
	sample_trail_event(&sample, TRAIL_LOST, 0x1040, 0, 0, 0);
	ran(LEAVES);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0, 0, 4000, 0x7f0012345000);
	sample_trail_event(&sample, TRAIL_EXEC, 0x2000, 0, 0, 0);
	ran(CALLEE);
	sample_trail_event(&sample, TRAIL_END, 0x2003, 1, TRAIL_KILLED, 4);
	done();
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("  switched out at 0x2000\n");
	expect("  switched in at 0x2000\n");
	expect("  signal SIGSEGV, handled by 0x1040 at 0x2003: ret\n");
	expect("  system call open = -ENOENT at 0x1047\n");
	expect("  fork: child 4242 at 0x1047\n");
	expect("  gap: ran unrecorded while recording was off at 0x1040\n");
	expect("  another tool's breakpoint at 0x1040\n");
	expect("  system call pause = ? (interrupted, to be made again) at 0x1040\n");
	expect("  lost 1 block at 0x1040\n");
	expect("  lost blocks, number unknown at 0x1040\n");
	expect("  system call 4000 = 0x7f0012345000\n");
	expect("  exec: another program in its place at 0x2000\n");
	expect("  killed by SIGILL at 0x2003: ret\n");
	/* what was left there led nowhere */
	cr_expect_eq(count_of("->"), 1, "%s", printed);
	cr_assert_eq(run("--instructions"), 0, "%s", printed);
	cr_expect_eq(count_of("lea 0x1(%rcx), %ecx\n"), 2, "%s", printed);
	cr_expect_eq(count_of(" ret\n"), 2, "%s", printed); /* in the events alone */
	cr_assert_eq(run("--json"), 0, "%s", printed);
	expect("{\"type\":\"trail_thread\",\"pid\":100,\"tid\":101,\"comm\":\"loops\","
	       "\"origin\":\"step\",");
	expect("\"number\":11,\"signal\":\"SIGSEGV\",\"call\":null");
	expect("\"handler_address\":\"0x1040\",");
	expect("\"number\":2,\"signal\":null,\"call\":\"open\",\"result\":-2,\"error\":\"ENOENT\"");
	expect("\"event\":\"lost\",\"reason\":null,\"child\":null,\"number\":null,"
	       "\"signal\":null,\"call\":null,\"result\":null,\"error\":null,\"blocks\":null");
	expect("\"event\":\"end\",\"reason\":\"killed\",\"child\":null,\"number\":4,"
	       "\"signal\":\"SIGILL\"");
	expect("\"instruction\":\"ret\",");
}

Test(trail_command, ends_a_crash_with_the_faulting_instruction)
{
	char *argv[] = { (char *)STEPS, (char *)"f", NULL };
	const char *last;

	if (access(STEPS, X_OK))
		cr_skip_test("tests/targets is not built");
	sample_steps(sample.folder, argv);
	cr_assert_eq(run(""), 0, "%s", printed);
	printed[strlen(printed) - 1] = '\0';
	last = strrchr(printed, '\n');
	cr_assert_not_null(last);
	cr_expect_not_null(strstr(last, "killed by SIGSEGV at "), "%s", last);
	cr_expect_not_null(strstr(last, "(steps.S:"), "%s", last);
	cr_expect_not_null(strstr(last, "): mov"), "%s", last);
	sample_folder_remove(sample.folder);
}

/* What a thread leaps to that calls through a pointer: `at`, and the signal that it gets there. */
static void leaps(uint64_t at, uint64_t signal)
{
	static const struct trail_entry leap = { 0x100c, 0, 2, 0, 1, TRAIL_CALL_INDIRECT, 0 };

	begin();
	/* a program that is not PIE, whose base is 0, and whose symbols have no sizes */
	sample_trail_module(&sample, STEPS, 0, NULL, 0);
	sample_trail_ran(&sample, &leap, "\xff\xd0");
	sample_trail_event(&sample, TRAIL_END, at, 0, TRAIL_KILLED, signal);
	done();
}

Test(trail_command, tells_who_called_null, .fini = end)
{
	leaps(0, 11);
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("call *%rax -> 0x0\n");
	expect("  killed by SIGSEGV at 0x0, which was jumped to at 0x100c: call *%rax\n");
	cr_assert_eq(run("--json"), 0);
	expect("\"to_address\":\"0x0\",");
	expect("\"at_address\":\"0x0\",");
	expect("\"from_address\":\"0x100c\",");
	cr_assert_eq(run("--calls"), 0);
	expect("-- killed by SIGSEGV at 0x0\n");
}

Test(trail_command, tells_that_a_programs_data_was_jumped_to, .fini = end)
{
	if (access(STEPS, X_OK))
		cr_skip_test("tests/targets is not built");
	leaps(0x402050, 11); /* behind the last function */
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("call *%rax -> steps+0x402050\n");
}

Test(trail_command, tells_who_jumped_to_where_no_code_is, .fini = end)
{
	leaps(0x5000, 11);
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("  killed by SIGSEGV at 0x5000, which was jumped to at 0x100c: call *%rax\n");
}

/* A thread that is killed from outside was at an unknown place. */
Test(trail_command, takes_no_other_signal_for_a_call_of_null, .fini = end)
{
	leaps(0, 9);
	cr_assert_eq(run(""), 0, "%s", printed);
	expect("call *%rax -> ?\n");
	expect("  killed by SIGKILL\n");
}

/* ---- what is not as it should be ---- */

Test(trail_command, refuses_what_is_no_trace)
{
	snprintf(sample.folder, sizeof(sample.folder), "/nonexistent");
	cr_expect_eq(run(""), 1);
	expect("No such file or directory: /nonexistent\n");
	snprintf(sample.folder, sizeof(sample.folder), "/usr");
	cr_expect_eq(run("--blocks"), 1);
	expect("/usr");
}

Test(trail_command, says_that_a_trace_has_no_trail, .fini = end)
{
	sample_trail_begin(&sample);
	sample_trail_marker(&sample, (uint64_t[]){ 1004 }, 1);
	sample_trail_close(&sample);
	cr_expect_eq(run(""), 1);
	expect("the trace has no such thing: a trail: ");
	expect("-e trail/soft/");
}

Test(trail_command, shows_a_damaged_trail_up_to_there, .fini = end)
{
	begin();
	turns(2);
	ran(TAIL); /* what can't follow */
	turns(2);
	done();
	cr_expect_eq(run(""), 1, "%s", printed);
	expect("jmp    -> 0x1000");
	expect("a block that can't follow the one before");
	cr_expect_eq(count_of("->"), 6, "%s", printed);
	cr_expect_eq(run("--json"), 1);
	expect("\"damage\":\"a block that can't follow the one before\"}");
}

/*
 * The stream files, cut everywhere: never more is shown than was there, and what is missing is
 * said.
 */
Test(trail_command, shows_a_trace_that_was_cut_anywhere_up_to_there, .fini = end)
{
	static const char *const files[] = { "100-101-1", "100-0-0", FACTS_FILE };

	simple();
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[128], command[256];
		struct stat st;

		snprintf(path, sizeof(path), "%s/%s", sample.folder, files[i]);
		snprintf(command, sizeof(command), "cp %s %s.whole", path, sample.folder);
		if (stat(path, &st))
			cr_assert_fail("no %s", path);
		cr_assert_eq(system(command), 0);
		for (off_t at = st.st_size - 1; at >= 0; at -= at > 300 ? 97 : 31) {
			int status;

			cr_assert_eq(truncate(path, at), 0);
			status = run("");
			cr_expect(status == 0 || status == 1, "%s cut at %ld: status %d: %s",
				  files[i], (long)at, status, printed);
			cr_expect_leq(count_of("->"), 10, "%s", printed);
			if (strcmp(files[i], FACTS_FILE) != 0 && at)
				cr_expect_eq(status, 1, "%s cut at %ld: %s", files[i], (long)at,
					     printed);
			snprintf(command, sizeof(command), "cp %s.whole %s", sample.folder, path);
			cr_assert_eq(system(command), 0);
		}
		snprintf(command, sizeof(command), "rm %s.whole", sample.folder);
		cr_assert_eq(system(command), 0);
	}
	cr_assert_eq(run(""), 0, "%s", printed);
}

Test(trail_command, names_files_that_are_missing_or_another, .fini = end)
{
	sample_trail_begin(&sample);
	sample_trail_module(&sample, "/nonexistent/lib\33[31mx.so", 0x1000, "\x12\x34\x56", 3);
	sample_trail_module(&sample, "/bin/sh", 0x2000, "\xab\xcd\xef", 3);
	sample_trail_module(&sample, "/nonexistent/unused.so", 0x700000000000, "\x77\x77\x77", 3);
	sample_trail_thread(&sample, TID, "loops");
	turns(1);
	done();
	cr_assert_eq(run("--instructions"), 0, "%s", printed);
	expect("lib\\x1b[31mx.so+0x3");
	expect("je 0x1040 <lib\\x1b[31mx.so+0x40>");
	expect("sh+0x3");
	expect("no names in /nonexistent/lib\\x1b[31mx.so: No such file or directory; give the "
	       "folder where it is with --root, or install its debug file, of build id 123456\n");
	expect("no names in /bin/sh: ");
	expect("of build id abcdef\n");
	expect_not("unused");
	expect_not("\33");
	cr_assert_eq(run("--root /nonexistent"), 0);
	expect("no names in /bin/sh: No such file");
}

Test(trail_command, says_that_its_output_has_no_room, .fini = end)
{
	simple();
	cr_expect_eq(run_shell("timeout 60", "", ">/dev/full"), 1);
	expect("No space left on device: standard output\n");
}

Test(trail_command, stops_where_nobody_reads, .fini = end)
{
	begin();
	turns(20000);
	done();
	cr_expect_eq(run_shell("", "-n 0", "| head -1"), 0);
	cr_expect_eq(count_of("\n"), 1, "%s", printed);
	/* as where the shell has SIGPIPE ignored */
	cr_expect_eq(run_shell("trap '' PIPE;", "-n 0", "| head -1"), 0);
	cr_expect_eq(count_of("\n"), 1, "%s", printed);
	cr_expect_eq(run_shell("", "", ">&-"), 1);
	expect("Bad file descriptor");
	if (!access("/dev/full", W_OK)) {
		cr_expect_eq(run_shell("", "", ">/dev/full"), 1);
		expect("No space left on device");
	}
}

Test(trail_command, shows_a_trace_that_is_still_being_written, .fini = end)
{
	begin();
	turns(3);
	cr_assert_eq(trail_thread_flush(&sample.trail, &sample.thread, sample.now), 0);
	turns(3);
	cr_assert_eq(run(""), 0, "%s", printed);
	expect(": 12 blocks, ");
	expect(" s, still being recorded\n");
	done();
	cr_assert_eq(run(""), 0, "%s", printed);
	expect(": 24 blocks, ");
	expect_not("still");
}

/* ---- forged ---- */

Test(trail_command, survives_absurd_addresses_and_code, .fini = end)
{
	static const struct trail_entry odd[] = {
		{ UINT64_MAX - 3, 0, 3, 0, 1, TRAIL_RETURN, 0 },
		{ 0, 0x10, 960, 959, 64, TRAIL_JUMP_INDIRECT, 0 },
		{ 0x8000000000000000, UINT64_MAX, 15, 14, 2, TRAIL_CALL_INDIRECT, 0 },
	};
	uint8_t code[960];

	memset(code, 0x06, sizeof(code)); /* no instruction of 64-bit code */
	begin();
	sample_trail_module(&sample, "/bin/sh", UINT64_MAX - 4096, "", 0);
	for (int i = 0; i < 3; i++)
		sample_trail_ran(&sample, &odd[i], i == 2 ? NULL : code);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0, 0, UINT64_MAX, UINT64_MAX);
	sample_trail_event(&sample, TRAIL_SIGNAL, 0, 0, 64, 1);
	sample_trail_event(&sample, TRAIL_GAP, 0, 0, UINT64_MAX, 0);
	sample_trail_event(&sample, TRAIL_SYSCALLED, 0, 0, UINT64_MAX, UINT64_MAX);
	sample_trail_event(&sample, TRAIL_FORK, 0, 0, UINT64_MAX, 0);
	sample_trail_event(&sample, TRAIL_END, 0, 0, UINT64_MAX, UINT64_MAX);
	done();
	for (size_t i = 0; i < 6; i++) {
		static const char *const ways[] = { "-n 0",
						    "-n 0 --json",
						    "--instructions -v",
						    "--instructions --json",
						    "--blocks -v",
						    "--blocks --json -v" };

		cr_expect_eq(run(ways[i]), 0, "%s: %s", ways[i], printed);
		if (i < 4)
			expect(i % 2 ? "\"event\":\"end\"" : "  ended\n");
	}
}
