/* SPDX-License-Identifier: MIT */
/* waymark export as a command: what it refuses, and what it leaves alone then. */
#include "cli/command_test.h"
#include "trace/trail/testing/trail.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static const struct trail_entry entry = { .start = 0x1000, .bytes = 2, .instructions = 1 };
static struct sample_trail sample;
static char path[80];

static void begin(void)
{
	sample_trail_begin(&sample);
	sample_trail_thread(&sample, 101, "name");
	sample_trail_ran(&sample, &entry, NULL);
	sample_trail_event(&sample, TRAIL_END, 0, 0, TRAIL_EXITED, 0);
	sample_trail_thread_end(&sample);
	snprintf(path, sizeof(path), "%s.out", sample.folder);
}

static void end(void)
{
	unlink(path);
	sample_trail_remove(&sample);
}

TestSuite(export_command, .init = begin, .fini = end);

Test(export_command, leaves_a_file_alone_where_there_is_nothing_to_write)
{
	sample_trail_close(&sample);
	cr_assert_eq(shell("echo kept >%s", path), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded --tid 7 -o %s %s", path,
			   sample.folder),
		     1);
	expect("a trail of that process or thread");
	cr_expect_eq(shell("cat %s", path), 0);
	cr_expect_str_eq(printed, "kept\n");
}

Test(export_command, replaces_a_file_and_never_writes_into_one)
{
	char link[90];

	sample_trail_close(&sample);
	snprintf(link, sizeof(link), "%s-link", path);
	cr_assert_eq(shell("echo kept >%s; chmod 640 %s; ln -f %s %s.old", path, path, path, path),
		     0);
	cr_assert_eq(shell("ln -s %s %s", path, link), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", link, sample.folder),
		     1);
	expect("the output is a symbolic link");
	cr_expect_eq(shell("cat %s", path), 0);
	cr_expect_str_eq(printed, "kept\n");
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", path, sample.folder),
		     0);
	cr_expect_eq(shell("cat %s; stat -c %%a %s; cat %s.old; ls -A $(dirname %s) | grep -c "
			   "waymark-.*new; cat /dev/null",
			   path, path, path, path),
		     0);
	cr_expect_str_eq(printed, "name;[unknown] 1\n640\nkept\n0\n");
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o /dev/stdout %s | cat",
			   sample.folder),
		     0);
	expect("name;[unknown] 1\n");
	cr_expect_eq(shell("rm %s %s.old", link, path), 0);
}

Test(export_command, waits_for_no_reader_of_a_fifo, .timeout = 60)
{
	sample_trail_close(&sample);
	cr_assert_eq(shell("mkfifo %s", path), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", path, sample.folder),
		     1);
	expect("no program has opened this FIFO to read from it");
	cr_expect_eq(shell(WAYMARK_COMMAND " top -o %s true", path), 1);
	expect("no program has opened this FIFO to read from it");
	cr_expect_eq(shell("exec 3<>%s && " WAYMARK_COMMAND
			   " export --format=folded -o %s %s && head -n 1 <&3",
			   path, path, sample.folder),
		     0);
	expect("name;[unknown] 1");
}

Test(export_command, leaves_the_file_of_another_user_alone)
{
	if (geteuid())
		cr_skip_test("needs root, which can give a file away");
	sample_trail_close(&sample);
	cr_assert_eq(shell("echo kept >%s && chown 65534 %s", path, path), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", path, sample.folder),
		     1);
	expect("another user owns it");
	cr_expect_eq(shell("cat %s", path), 0);
	cr_expect_str_eq(printed, "kept\n");
	/* a link of theirs could lead to a disk */
	cr_assert_eq(shell("ln -sf /dev/null %s && chown -h 65534 %s", path, path), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", path, sample.folder),
		     1);
	expect("the output is a symbolic link");
	cr_assert_eq(shell("rm %s; ln -s /dev/null %s", path, path), 0);
	cr_expect_eq(shell(WAYMARK_COMMAND " export --format=folded -o %s %s", path, sample.folder),
		     0);
}
