/* SPDX-License-Identifier: MIT */
#include "read/history/alike.h"

#include <criterion/criterion.h>
#include <string.h>

static struct fact_module modules[2];
static struct image *images[2];
static struct trail_table tables[2];
static struct alike *alike;

/* A block of a trace, so far in its only module. */
static void put(int side, uint64_t base, uint64_t offset, const char *path, const char *build_id)
{
	struct fact_process process = { .modules = &modules[side], .module_count = 1 };
	struct trail_entry entry = { .start = base + offset,
				     .bytes = 4,
				     .last = 3,
				     .instructions = 2,
				     .kind = TRAIL_RETURN };

	memset(&modules[side], 0, sizeof(modules[side]));
	modules[side].base = base;
	memcpy(&modules[side].path, &path, sizeof(path));
	memcpy(&modules[side].build_id, &build_id, sizeof(build_id));
	cr_assert_eq(image_open(&images[side], &process, NULL), 0);
	cr_assert_eq(trail_table_define(&tables[side], 0, (const uint8_t *)&entry, sizeof(entry)),
		     0);
}

/* Whether the two blocks are the same code. */
static int is_same(void)
{
	const struct alike_table *a, *b;
	int same;

	cr_assert_eq(alike_open(&alike), 0);
	a = alike_table(alike, 0, &tables[0], images[0]);
	b = alike_table(alike, 1, &tables[1], images[1]);
	cr_assert(a && b && a->codes[0].number && b->codes[0].number);
	cr_expect_eq(alike_table(alike, 0, &tables[0], images[0]), a);
	same = a->codes[0].number == b->codes[0].number;
	return same;
}

static void end(void)
{
	alike_close(alike);
	for (int i = 0; i < 2; i++) {
		image_close(images[i]);
		trail_table_release(&tables[i]);
	}
}

TestSuite(alike, .fini = end);

Test(alike, by_build_id_whatever_the_path)
{
	put(0, 0x100000, 0x10, "/a/x", "aa");
	put(1, 0x900000, 0x10, "/b/y", "aa");
	cr_expect(is_same());
}

Test(alike, by_path_and_it_is_told_that_the_files_differ)
{
	put(0, 0x100000, 0x10, "/a/x", "aa");
	put(1, 0x900000, 0x10, "/a/x", "bb");
	cr_expect(is_same());
	cr_expect_str_eq(alike_module(alike, 1)->build_id[0], "aa");
	cr_expect_str_eq(alike_module(alike, 1)->build_id[1], "bb");
	cr_expect_null(alike_module(alike, 2));
}

Test(alike, by_name_where_there_is_no_more)
{
	put(0, 0x100000, 0x10, "/a/x", NULL);
	put(1, 0x900000, 0x10, "/b/x", NULL);
	cr_expect(is_same());
}

Test(alike, not_in_other_modules_nor_elsewhere_in_the_same)
{
	put(0, 0x100000, 0x10, "/a/x", NULL);
	put(1, 0x100000, 0x10, "/a/y", NULL);
	cr_expect_not(is_same());
	end();
	memset(tables, 0, sizeof(tables));
	put(0, 0x100000, 0x10, "/a/x", NULL);
	put(1, 0x100000, 0x14, "/a/x", NULL);
	cr_expect_not(is_same());
}
