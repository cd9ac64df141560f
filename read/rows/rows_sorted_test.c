/* SPDX-License-Identifier: MIT */
#include "read/rows/rows_sorted.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct row_column columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "" },
	{ "time", ROW_U64, ROW_NS, 0, "" },
};
static ROW_TABLE(table, "event", "", columns);

static char printed[4096];
static size_t bytes;

static ssize_t keep(int fd, const void *from, size_t count)
{
	(void)fd;
	cr_assert_leq(bytes + count, sizeof(printed));
	memcpy(printed + bytes, from, count);
	bytes += count;
	return (ssize_t)count;
}

static void make(void *data, size_t number, struct row_value *row)
{
	static const uint64_t times[] = { 20, 0, 300, 20 };
	char *name = data;

	snprintf(name, 8, "%c%zu", "dbca"[number], number);
	ROWS_FILL(row, columns, row_text(name), row_known(times[number]));
}

static const char *sorted_by(const char *column, uint64_t last)
{
	static struct out out;
	char name[8];
	const struct rows_sorted sorted = { .table = &table,
					    .column = (unsigned int)rows_column(&table, column),
					    .count = 4,
					    .make = make,
					    .data = name };
	struct rows rows;

	bytes = 0;
	out_init(&out, -1);
	out.write = keep;
	rows_begin(&rows, &out, ROWS_CSV);
	rows_put_sorted(&rows, &sorted, &(struct rows_layout){ .last = last });
	cr_assert_eq(rows_end(&rows), 0);
	printed[bytes] = '\0';
	return printed;
}

Test(rows_sorted, numbers_begin_with_the_largest_and_end_with_null)
{
	cr_expect_str_eq(sorted_by("time", 0),
			 "name,time_ns\n\"c2\",300\n\"d0\",20\n\"a3\",20\n\"b1\",\n");
	cr_expect_str_eq(sorted_by("time_ns", 1), "name,time_ns\n\"c2\",300\n");
}

Test(rows_sorted, texts_begin_with_a)
{
	cr_expect_str_eq(sorted_by("name", 2), "name,time_ns\n\"a3\",20\n\"b1\",\n");
	cr_expect_eq(rows_column(&table, "nam"), -1);
}
