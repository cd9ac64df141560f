/* SPDX-License-Identifier: MIT */
/* waymark compress as a command; and that the others read what it makes. */
#include "cli/command_test.h"
#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];

static int run(const char *arguments)
{
	return run_on(dir, "", arguments);
}

static struct trace_writer *writer;

static void begin(void)
{
	struct trace_process about = {
		.pid = 10, .exe = "/bin/shop", .hostname = "here", .ticks_hz = 1000000000
	};
	struct sample sample = { .head = { .pid = 10, .tid = 10, .comm = "shop" } };

	sample_folder(dir);
	cr_assert_eq(trace_writer_open(&writer, dir), 0);
	cr_assert_eq(trace_process_add(writer, &about), 0);
	trace_event_add(writer, 0, 0, SAMPLE_TYPES(0), "mj\ndb\nbusy\na.c\n3\n");
	trace_clock_set(writer, 1000000000, 0, 1700000000000000000);
	sample_begin(&sample, 0);
	for (uint64_t i = 0; i < 500; i++)
		sample_event(&sample, 0, i * 1000, 0);
	cr_assert_eq(sample_write(&sample, writer, 0), 0);
	sample_release(&sample);
}

static void end(void)
{
	sample_folder_remove(dir);
}

TestSuite(compress_command, .init = begin, .fini = end, .timeout = 60);

Test(compress_command, makes_what_the_others_read_as_before)
{
	char *before;

	trace_writer_close(writer);
	cr_assert_eq(run("dump %s"), 0);
	before = strdup(printed);
	cr_assert_eq(run("compress %s"), 0, "%s", printed);
	expect(" kB made ");
	cr_assert_eq(run("dump %s"), 0, "%s", printed);
	cr_expect_str_eq(printed, before);
	cr_assert_eq(run("report %s"), 0, "%s", printed);
	expect("db:busy    500");
	cr_assert_eq(run("compress %s"), 0);
	expect("nothing to do\n");
	cr_assert_eq(run("report --repair %s"), 1);
	expect("the trace is compressed");
	cr_assert_eq(run("compress --decompress --json %s"), 0, "%s", printed);
	expect("\"streams\":1,\"before_bytes\":");
	expect("\"damaged\":0}");
	cr_assert_eq(run("dump %s"), 0, "%s", printed);
	cr_expect_str_eq(printed, before);
	free(before);
}

Test(compress_command, is_refused_while_the_trace_is_written)
{
	cr_expect_eq(run("compress %s"), 1);
	expect("the trace is being written");
	trace_writer_close(writer);
}

Test(compress_command, says_what_is_wrong)
{
	char command[256];

	trace_writer_close(writer);
	cr_expect_eq(run("compress"), 2);
	expect("name the trace's folder");
	cr_expect_eq(run("compress %s %s"), 2);
	expect("only one folder");
	cr_expect_eq(run("compress --no-such %s"), 2);
	cr_expect_eq(run("compress /"), 1);
	expect("this is no trace");
	cr_expect_eq(run("compress /nonexistent"), 1);

	cr_expect_eq(run("compress %s"), 0);
	snprintf(command, sizeof(command), "truncate -s -30 %s/*.zst", dir);
	cr_assert_eq(system(command), 0);
	cr_expect_eq(run("report %s"), 1);
	expect("cut in a compressed frame");
	cr_expect_eq(run("compress -d %s"), 1);
	expect("only up to a damage");
}
