/* SPDX-License-Identifier: MIT */
/* Lines of this very program, as if it had run as these tests say. */
#include "read/history/lines.h"

#include "target/code/testing/block_read.h"

#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char exe[4096];
static struct fact_module module = { .path = exe };
static const struct fact_process process = { .modules = &module, .module_count = 1 };
static struct image *image;
static struct lines *lines;
static struct trail_table table;
static struct ran_count counts[8];
static volatile int sink;

__attribute__((noinline)) static void walked(int x)
{
	sink = x;
	sink = x + 1;
	if (x > 5)
		sink = 7;
	sink = 9;
}

enum { WALKED_LINE = __LINE__ - 9 }; /* that of its name */

__attribute__((noinline, used)) static void never(void)
{
	sink = 8;
}

enum { NEVER_LINE = __LINE__ - 5 };

static int first_base(struct dl_phdr_info *info, size_t bytes, void *data)
{
	(void)bytes;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

/* The block that begins at an address ran so often. */
static struct trail_entry ran_at(uint64_t start, uint64_t times, uint64_t taken)
{
	struct {
		struct trail_entry entry;
		uint8_t code[TRAIL_BLOCK_BYTES_MAX];
	} run;
	uint32_t id = table.count;

	memcpy(run.code, (const void *)(uintptr_t)start,
	       sizeof(run.code)); /* the program's own, and longer */
	cr_assert_eq(block_read(&run.entry, start, run.code, sizeof(run.code), 64), 0);
	run.entry.flags = TRAIL_HAS_CODE;
	cr_assert_eq(trail_table_define(&table, id, (const uint8_t *)&run,
					sizeof(run.entry) + run.entry.bytes),
		     0);
	counts[id] = (struct ran_count){ times, taken, 0 };
	return run.entry;
}

static void begin(void)
{
	struct trail_entry entry;

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	dl_iterate_phdr(first_base, &module.base);
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	entry = ran_at((uint64_t)(uintptr_t)walked, 10, 10);
	cr_assert_eq(entry.kind, TRAIL_BRANCH, "the sample has a jump");
	ran_at(entry.target, 10, 0);
}

static void end(void)
{
	lines_close(lines);
	image_close(image);
	trail_table_release(&table);
}

TestSuite(lines, .init = begin, .fini = end);

static void count(const struct lines_options *options)
{
	struct ran_table ran_table = { .table = &table, .counts = counts };
	const struct ran ran = { .tables = &ran_table, .count = 1 };

	cr_assert_eq(lines_open(&lines, options), 0);
	cr_assert_eq(lines_take(lines, image, &ran), 0);
	cr_assert_eq(lines_take(lines, image, &ran), 0);
	cr_assert_eq(lines_settle(lines), 0);
}

static const struct lines_source *own_source(void)
{
	const struct lines_source *source;

	for (size_t i = 0; (source = lines_source(lines, i)); i++)
		if (strstr(source->path, "/history/lines_test.c"))
			return source;
	return NULL;
}

static const struct lines_line *line(uint32_t number)
{
	const struct lines_source *source = own_source();

	cr_assert_not_null(source);
	for (size_t i = 0; i < source->line_count; i++)
		if (source->lines[i].number == number)
			return &source->lines[i];
	cr_assert_fail("no line %u", number);
	return NULL;
}

Test(lines, ran_as_often_as_their_code)
{
	const struct lines_source *source;
	int found = 0;

	count(NULL);
	source = own_source();
	cr_assert_not_null(source);
	cr_expect(source->has_run);
	cr_expect_gt(source->built_s, 0);
	cr_expect_null(strstr(source->path, ".."));
	cr_expect_eq(line(WALKED_LINE + 2)->ran, 20);
	cr_expect_eq(line(WALKED_LINE + 3)->ran, 20);
	cr_expect_eq(line(NEVER_LINE + 2)->ran, 0);
	cr_expect_eq(line(NEVER_LINE + 2)->instructions, 0);
	for (size_t i = 0; i < source->function_count; i++) {
		if (!strcmp(source->functions[i].name, "walked"))
			found += source->functions[i].ran == 20;
		if (!strcmp(source->functions[i].name, "never"))
			found += source->functions[i].ran == 0;
	}
	cr_expect_eq(found, 2);
	cr_expect_gt(lines_module(lines, 0)->row_count, 0);
	cr_expect_null(lines_module(lines, 1));
}

Test(lines, have_the_ways_that_their_jumps_went)
{
	const struct lines_line *jumps;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	cr_skip_test("the sanitizer's own jumps are among those of the sample");
#endif
	count(&(struct lines_options){ .all_branches = 1 });
	jumps = line(WALKED_LINE + 4);
	cr_assert_eq(jumps->branch_count, 1);
	cr_expect_eq(jumps->branches[0].ran, 20);
	cr_expect_eq(jumps->branches[0].taken, 20);
	cr_expect_eq(jumps->branches[0].fell, 0);
}

Test(lines, are_wanted_of_a_function)
{
	count(&(struct lines_options){ .function = "walk*" });
	cr_expect(line(WALKED_LINE + 2)->is_wanted);
	cr_expect_not(line(NEVER_LINE + 2)->is_wanted);
}

Test(lines, are_none_of_modules_that_are_not_wanted)
{
	count(&(struct lines_options){ .module = "libc.so*" });
	cr_expect_null(lines_source(lines, 0));
	cr_expect_null(lines_module(lines, 0));
	cr_expect_gt(lines_instructions(lines), 0);
}

Test(lines, are_unknown_where_the_file_is_not_here)
{
	snprintf(exe, sizeof(exe), "/nonexistent");
	image_close(image);
	cr_assert_eq(image_open(&image, &process, NULL), 0);
	count(NULL);
	cr_expect_null(lines_source(lines, 0));
	cr_expect_lt(lines_module(lines, 0)->error, 0);
}
