/* SPDX-License-Identifier: MIT */
/* The output for made-up paths, letter by letter; and that long ones are complete. */
#include "read/export/export.h"
#include "read/history/testing/made.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <waymark/error.h>

static struct export_thread thread;
static struct export_process process;
static struct export export;
static char *text;	    /* what was written */
static const char *renamed; /* the thread; NULL: it is "name" */

static void begin(void)
{
	made_begin();
}

static void end(void)
{
	free(text);
	made_end();
}

TestSuite(export, .init = begin, .fini = end);

/* Have the blocks from..to - 1 written. */
static void written(int (*write)(struct export *), uint64_t from, uint64_t to)
{
	static struct out out;
	struct trail_bound bounds[] = { { TRAIL_BOUND_BLOCK, from }, { TRAIL_BOUND_BLOCK, to } };
	int fd = memfd_create("text", 0);
	off_t bytes;

	cr_assert_geq(fd, 0);
	thread.path = made_read();
	if (renamed)
		strcpy((char *)thread.path->stream->comm, renamed);
	trail_range_init(&thread.range, made.reader, thread.path, &bounds[0], &bounds[1]);
	process = (struct export_process){ made.image, made.functions, SAMPLE_TRAIL_PID };
	export.out = &out;
	export.name = "trace \"one\"";
	export.threads = &thread;
	export.processes = &process;
	export.thread_count = export.process_count = 1;
	out_init(&out, fd);
	cr_assert_eq(write(&export), 0);
	cr_assert_eq(out_flush(&out), 0);
	made.functions = process.functions;
	bytes = lseek(fd, 0, SEEK_END);
	text = calloc(1, (size_t)bytes + 1);
	cr_assert_eq(pread(fd, text, (size_t)bytes, 0), bytes);
	close(fd);
}

static void main_calls_f_which_calls_g_twice(void)
{
	made_ran(MAIN, TRAIL_CALL, F);
	made_ran(F, TRAIL_CALL, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 4, TRAIL_CALL, G);
	made_ran(G, TRAIL_BRANCH, G + 8);
	made_ran(G + 8, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
}

Test(export, folds_stacks)
{
	main_calls_f_which_calls_g_twice();
	written(export_folded, 0, UINT64_MAX);
	cr_expect_str_eq(text, "name;main 4\nname;main;f 6\nname;main;f;g 6\n");
}

/* Divides no line, and does nothing to a terminal: DEL, an escape, no UTF-8, C1; but names stay. */
Test(export, folds_names_without_control_characters)
{
	renamed = "a;b\x7f\x1b[\xff\xc2\x9b\xc3\xa9";
	main_calls_f_which_calls_g_twice();
	written(export_folded, 0, UINT64_MAX);
	cr_expect_eq(strncmp(text, "a:b__[__\xc3\xa9;main 4\n", 18), 0, "%s", text);
}

Test(export, folds_stacks_by_blocks_of_a_range)
{
	export.weight = EXPORT_BLOCKS;
	main_calls_f_which_calls_g_twice();
	written(export_folded, 3, 7);
	cr_expect_str_eq(text, "name;main;f 2\nname;main;f;g 2\n");
}

/* Lines are bounded, and nothing that ran is missing. */
Test(export, folds_deep_stacks_no_deeper_than_a_line_may_be)
{
	size_t longest = 0;
	unsigned long sum = 0;
	char *line;

	made_ran(MAIN, TRAIL_CALL, F);
	for (int i = 0; i < 5000; i++)
		made_ran(F, TRAIL_CALL, F);
	made_ran(F, TRAIL_RETURN, 0);
	for (int i = 0; i < 5000; i++)
		made_ran(F + 4, TRAIL_RETURN, 0);
	written(export_folded, 0, UINT64_MAX);
	for (line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		longest = strlen(line) > longest ? strlen(line) : longest;
		sum += strtoul(strrchr(line, ' '), NULL, 10);
	}
	cr_expect_leq(longest, 5 + 4 + 2 * 1000 + 10);
	cr_expect_eq(sum, 2 * 10002);
}

Test(export, writes_calls_for_speedscope)
{
	made_ran(MAIN, TRAIL_CALL, F);
	made_ran(F, TRAIL_JUMP, G);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(MAIN + 4, TRAIL_FALL, 0);
	written(export_speedscope, 0, UINT64_MAX);
	cr_expect_str_eq(
		text, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		      "\"exporter\":\"waymark@" WAYMARK_VERSION "\",\"name\":\"trace \\\"one\\\"\","
		      "\"activeProfileIndex\":0,\n"
		      "\"profiles\":[{\"type\":\"evented\",\"name\":\"name 100/100, instructions\","
		      "\"unit\":\"none\",\"startValue\":0,\"events\":[\n"
		      "{\"type\":\"O\",\"frame\":0,\"at\":0},\n"
		      "{\"type\":\"O\",\"frame\":1,\"at\":2},\n"
		      "{\"type\":\"C\",\"frame\":1,\"at\":4},\n"
		      "{\"type\":\"O\",\"frame\":2,\"at\":4},\n"
		      "{\"type\":\"C\",\"frame\":2,\"at\":6},\n"
		      "{\"type\":\"C\",\"frame\":0,\"at\":8}],\"endValue\":8}],\n"
		      "\"shared\":{\"frames\":[\n"
		      "{\"name\":\"main\",\"file\":\"" CALLS_FIXTURE "\"},\n"
		      "{\"name\":\"f\",\"file\":\"" CALLS_FIXTURE "\"},\n"
		      "{\"name\":\"g\",\"file\":\"" CALLS_FIXTURE "\"}]}}\n");
}

/* The branches of a line, oldest first. How many. */
static int branches_of(char *line, uint64_t from[64], uint64_t to[64])
{
	int count = 0, used = 0;
	uint64_t all[64][2];
	unsigned long ip;

	cr_assert_eq(sscanf(line, "%lx%n", &ip, &used), 1, "%s", line);
	for (line += used; *line; line += used, count++) {
		cr_assert_lt(count, 64);
		cr_assert_eq(sscanf(line, " 0x%lx/0x%lx/P/-/-/0 %n", &all[count][0], &all[count][1],
				    &used),
			     2, "%s", line);
	}
	for (int i = 0; i < count; i++) {
		from[i] = all[count - 1 - i][0];
		to[i] = all[count - 1 - i][1];
	}
	cr_assert_eq(ip, to[count - 1]);
	return count;
}

/*
 * A reader takes the code from where a branch led up to the next of its stack for what ran: the
 * branch that ends a stack begins the next one, and is no call, which would be counted twice.
 */
Test(export, has_every_branch_and_all_code_between_two_in_stacks)
{
	static uint64_t wanted[4000][2];
	uint64_t from[64], to[64];
	uint32_t lengths = 0;
	size_t count = 0, seen = 0;
	char *line;

	for (int i = 0; i < 700; i++) {
		static const uint64_t turn[4][2] = {
			{ MAIN + 2, F }, { F + 6, G }, { G + 2, F + 8 }, { F + 10, MAIN }
		};

		made_ran(MAIN, TRAIL_CALL, F);
		made_ran(F, TRAIL_BRANCH, F + 32); /* not taken */
		made_ran(F + 4, TRAIL_CALL, G);
		made_ran(G, TRAIL_RETURN, 0);
		made_ran(F + 8, TRAIL_JUMP, MAIN);
		memcpy(&wanted[count], turn, sizeof(turn));
		count += 4;
	}
	made_ran(MAIN, TRAIL_FALL, 0);
	written(export_perf_script, 0, UINT64_MAX);
	line = strtok(text, "\n");
	cr_assert_eq(strncmp(line, "PERF_RECORD_MMAP2 100/100: [0x401000(0x", 39), 0, "%s", line);
	cr_assert_not_null(strstr(line, "]: r-xp " CALLS_FIXTURE));
	while ((line = strtok(NULL, "\n")) && *line != 'P') {
		int branches = branches_of(line, from, to);

		if (seen) {
			cr_assert_neq(to[0], F, "a repeated call");
			cr_assert_neq(to[0], G, "a repeated call");
			cr_assert_neq(to[0], MAIN, "a repeated call");
			seen--;
		}
		cr_assert(branches <= 35 && (branches >= 17 || seen + (size_t)branches == count));
		lengths |= branches > 32 ? 0 : 1u << (branches - 1);
		for (int i = 0; i < branches; i++, seen++) {
			cr_assert_eq(from[i], wanted[seen][0], "branch %zu", seen);
			cr_assert_eq(to[i], wanted[seen][1], "branch %zu", seen);
		}
	}
	cr_expect_eq(seen, count);
	cr_expect_gt(__builtin_popcount(lengths), 3, "loops would count one line more always");
}

/*
 * Without other branches the stack is as long as a reader may take it, and its last call is in two.
 */
Test(export, ends_a_stack_of_calls_somewhere)
{
	size_t most = 0, lines = 0;

	made_ran(MAIN, TRAIL_CALL, F);
	for (int i = 0; i < 2000; i++)
		made_ran(F, TRAIL_CALL, F);
	written(export_perf_script, 0, UINT64_MAX);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		size_t count = 0;

		for (const char *at = line; *line != 'P' && (at = strstr(at, "/P/-/-/0")); at++)
			count++;
		lines += count != 0;
		most = count > most ? count : most;
	}
	cr_expect_eq(most, 1024);
	cr_expect_eq(lines, 2);
}

/*
 * From one branch of a stack to the next leads straight code: not over a signal, nor over what was
 * lost.
 */
Test(export, ends_a_stack_where_code_is_not_straight)
{
	uint64_t from[64], to[64];
	char *line;

	made_ran(MAIN, TRAIL_CALL, F);
	made_event(TRAIL_DEPART, F, 0, 0, 0);
	made_event(TRAIL_ARRIVE, F, 0, 0, 0);
	made_ran(F, TRAIL_SYSCALL, 0);
	made_event(TRAIL_SYSCALLED, F + 4, 0, SYS_getpid, 1);
	made_ran(F + 4, TRAIL_CALL, G);
	made_event(TRAIL_SIGNAL, G, 0, 10, HANDLER);
	made_ran(HANDLER, TRAIL_JUMP, NAMELESS);
	made_ran(NAMELESS, TRAIL_SYSCALL, 0);
	made_event(TRAIL_SYSCALLED, G, 0, SYS_rt_sigreturn, 0);
	made_ran(G, TRAIL_RETURN, 0);
	made_ran(F + 8, TRAIL_JUMP, F);
	made_event(TRAIL_LOST, 0, 0, 1, 0);
	made_ran(F, TRAIL_JUMP, F);
	written(export_perf_script, 0, UINT64_MAX);
	line = strtok(text, "\n");
	while (line && *line == 'P')
		line = strtok(NULL, "\n");
	cr_assert_eq(branches_of(line, from, to), 2);
	cr_expect_eq(from[1], F + 6);
	cr_expect_eq(to[1], G);
	cr_assert_eq(branches_of(strtok(NULL, "\n"), from, to), 1);
	cr_expect_eq(from[0], HANDLER + 2);
	line = strtok(NULL, "\n");
	cr_assert_not_null(line);
	cr_assert_eq(branches_of(line, from, to), 1);
	cr_expect_eq(from[0], G + 2);
	cr_expect_eq(to[0], F + 8);
	cr_expect_null(strtok(NULL, "\n"));
}

/* The target of an event without a place was not jumped to. */
Test(export, has_no_branch_over_an_event_that_says_nothing_of_where)
{
	const char *line;

	made_ran(MAIN, TRAIL_CALL, F);
	made_ran(F, TRAIL_RETURN, 0);
	made_event(TRAIL_GAP, 0, 0, TRAIL_GAP_NATIVE, 0);
	made_ran(G, TRAIL_CALL_INDIRECT, 0);
	made_event(TRAIL_SIGNAL, 0, 0, 10, HANDLER);
	made_ran(HANDLER, TRAIL_FALL, 0);
	written(export_perf_script, 0, UINT64_MAX);
	line = strchr(text, '\n');
	cr_assert_not_null(line);
	cr_expect_str_eq(line + 1, "          401040  0x401002/0x401040/P/-/-/0 \n", "%s", text);
}
