/* SPDX-License-Identifier: MIT */
#include "target/code/file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>
#include <waymark/error.h>

static struct code_file *file;

Test(code_file, a_short_name_is_the_last_part_up_to_so)
{
	char name[16];

	code_file_short_name("/lib/x86_64-linux-gnu/libc.so.6", name, sizeof(name));
	cr_assert_str_eq(name, "libc");
	code_file_short_name("/usr/bin/psql", name, sizeof(name));
	cr_assert_str_eq(name, "psql");
	code_file_short_name("a/my prog.sort", name, sizeof(name));
	cr_assert_str_eq(name, "my_prog.sort");
	code_file_short_name("[vdso]", name, sizeof(name));
	cr_assert_str_eq(name, "_vdso_");
	code_file_short_name("/", name, sizeof(name));
	cr_assert_str_eq(name, "_");
	code_file_short_name("/libaverylongnameindeed.so", name, sizeof(name));
	cr_assert_str_eq(name, "libaverylongnam");
}

Test(code_file, what_is_no_program_is_refused)
{
	cr_assert_eq(code_file_open(&file, "/nonexistent"), -ENOENT);
	cr_assert_null(file);
	cr_assert_eq(code_file_open(&file, "/etc/passwd"), -WM_E_NOT_ELF);
	cr_assert_eq(code_file_open(&file, "/tmp"), -EISDIR);
	cr_assert_eq(code_file_open(&file, "/dev/null"), -WM_E_NOT_ELF);
	cr_assert_null(file);
}

/* What opening a device does can't be tested here, but a pipe says whether it was opened. */
Test(code_file, pipe_is_refused_without_opening_it)
{
	char path[] = "/tmp/waymark-test-XXXXXX", pipe[64], event[512];
	int seen = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	cr_assert(mkdtemp(path));
	snprintf(pipe, sizeof(pipe), "%s/pipe", path);
	cr_assert_eq(mkfifo(pipe, 0600), 0);
	cr_assert_geq(inotify_add_watch(seen, pipe, IN_OPEN), 0);
	cr_expect_eq(code_file_open(&file, pipe), -WM_E_NOT_ELF);
	cr_expect_eq(read(seen, event, sizeof(event)), -1);
	cr_expect_eq(errno, EAGAIN);
	close(seen);
	unlink(pipe);
	rmdir(path);
}

Test(code_file, reads_itself)
{
	const struct code_section *text;
	const void *content;
	uint8_t byte;
	size_t bytes;

	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	text = code_file_section(file, ".text");
	cr_assert_not_null(text);
	cr_assert_eq(code_file_section_at(file, text->address + 1), text);
	cr_assert(code_file_is_text(file, text->address, text->bytes));
	cr_assert_not(code_file_is_text(file, text->address, text->bytes + (64 << 20)));
	cr_assert_not(code_file_is_text(file, 0, 1));
	cr_assert_eq(code_file_content(file, text, &content, &bytes), 0);
	cr_assert_eq(bytes, text->bytes);
	cr_assert_eq(code_file_read(file, text->address + 5, &byte, 1), 0);
	cr_assert_eq(byte, ((const uint8_t *)content)[5]);
	cr_assert_eq(code_file_read(file, UINT64_MAX - 3, &byte, 1), -EFAULT);
	cr_assert_gt(file->build_id_bytes, 0);
	code_file_close(file);
}

Test(code_file, what_the_loader_zeroes_reads_as_zeros)
{
	const struct code_section *bss;
	char bytes[16] = "x";

	cr_assert_eq(code_file_open(&file, "/proc/self/exe"), 0);
	bss = code_file_section(file, ".bss");
	cr_assert_not_null(bss);
	cr_assert_eq(code_file_read(file, bss->address + bss->bytes - 1, bytes, 1), 0);
	cr_assert_eq(bytes[0], 0);
	code_file_close(file);
}
