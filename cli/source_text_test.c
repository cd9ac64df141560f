/* SPDX-License-Identifier: MIT */
#include "cli/source_text.h"

#include "trace/testing/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct source_text text;
static char dir[64], path[128];

static void begin(void)
{
	sample_folder(dir);
	snprintf(path, sizeof(path), "%s/a.c", dir);
}

static void end(void)
{
	source_text_release(&text);
	sample_folder_remove(dir);
}

TestSuite(source_text, .init = begin, .fini = end);

static void make(const char *content)
{
	source_text_release(&text);
	sample_folder_put(dir, "/a.c", content, strlen(content));
	cr_assert_eq(source_text_read(&text, path, NULL), 0);
}

static const char *line(uint32_t number)
{
	static char copy[64];
	size_t bytes = 0;
	const char *at = source_text_line(&text, number, &bytes);

	snprintf(copy, sizeof(copy), "%.*s", (int)bytes, at ? at : "none");
	return at ? copy : "none";
}

Test(source_text, lines_end_with_or_without_a_newline)
{
	make("one\n\nthree");
	cr_expect_eq(text.count, 3);
	cr_expect_str_eq(line(1), "one");
	cr_expect_str_eq(line(2), "");
	cr_expect_str_eq(line(3), "three");
	cr_expect_str_eq(line(4), "none");
	cr_expect_str_eq(line(0), "none");
	cr_expect_str_eq(line(UINT32_MAX), "none");
	make("one\n");
	cr_expect_eq(text.count, 1);
	cr_expect_str_eq(line(1), "one");
	make("\n");
	cr_expect_eq(text.count, 1);
	cr_expect_str_eq(line(1), "");
}

Test(source_text, lines_are_all_of_the_text)
{
	uint64_t seed = 4;
	char content[300];

	for (unsigned int i = 0; i < 100; i++) {
		size_t bytes = 1 + sample_random(&seed) % (sizeof(content) - 1), sum = 0, one;

		for (size_t j = 0; j < bytes; j++)
			content[j] = "ab\n"[sample_random(&seed) % 3];
		content[bytes] = 0;
		make(content);
		for (uint32_t j = 1; j <= text.count; j++) {
			cr_assert_eq(source_text_line(&text, j, &one), text.bytes + sum);
			sum += one + 1;
		}
		cr_assert_eq(sum, bytes + (content[bytes - 1] != '\n'));
	}
}

/* The longest end of the path that is there. */
Test(source_text, file_is_found_below_the_given_folder)
{
	char found[PATH_MAX], expected[128];

	sample_folder_put(dir, "/src/lib/b.c", "b", 1);
	sample_folder_put(dir, "/b.c", "other", 5);
	snprintf(expected, sizeof(expected), "%s//src/lib/b.c", dir);
	cr_assert_eq(source_find("/build/x/src/lib/b.c", dir, found), 0);
	cr_expect_eq(strcmp(found + strlen(found) - strlen("/src/lib/b.c"), "/src/lib/b.c"), 0);
	cr_assert_eq(source_find("/build/other/b.c", dir, found), 0);
	cr_expect_null(strstr(found, "lib"));
	cr_expect_eq(source_find("/build/none.c", dir, found), -ENOENT);
	cr_expect_eq(source_find("", dir, found), -ENOENT);
	cr_expect_eq(source_find("///", dir, found), -ENOENT);
	cr_expect_eq(source_find(path, NULL, found), -ENOENT);
}

Test(source_text, path_of_any_length_is_not_found)
{
	static char longest[2 * PATH_MAX];
	char found[PATH_MAX];

	for (size_t bytes = PATH_MAX - 70; bytes < PATH_MAX + 10; bytes += 3) {
		memset(longest, 'a', bytes);
		longest[bytes] = 0;
		cr_expect_eq(source_find(longest, dir, found), -ENOENT);
		longest[3] = '/';
		cr_expect_eq(source_find(longest, dir, found), -ENOENT);
	}
}

/* A path of debug information may lead to anything: a pipe would have its reader wait. */
Test(source_text, what_is_no_regular_file_is_not_read, .timeout = 10)
{
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(source_text_read(&text, path, NULL), -ENOENT);
	cr_expect_eq(source_text_read(&text, dir, NULL), -ENOENT);
	cr_expect_eq(source_text_read(&text, "/dev/zero", NULL), -ENOENT);
	cr_expect_eq(text.count, 0);
}

Test(source_text, file_that_is_too_large_is_not_read)
{
	make("one");
	source_text_release(&text);
	cr_assert_eq(truncate(path, (off_t)SOURCE_BYTES_MAX + 1), 0);
	cr_expect_eq(source_text_read(&text, path, NULL), -EFBIG);
}

Test(source_text, glob_without_a_slash_is_of_the_last_part)
{
	cr_expect(source_matches("*.c", "/src/a.c"));
	cr_expect(source_matches("a.c", "/src/a.c"));
	cr_expect(source_matches("/src/*", "/src/a.c"));
	cr_expect_not(source_matches("src", "/src/a.c"));
	cr_expect_not(source_matches("x/a.c", "/src/a.c"));
}
