/* SPDX-License-Identifier: MIT */
/* Lines of sums: added up, bounded, in order, cut. */
#include "cli/sums_lines.h"

#include "cli/output.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker/field.h>

static char fields[][SCHEMA_NAME_BYTES] = { "kind",	"hist_size", "count",
					    "sum_size", "min_size",  "max_size" };
static const struct trace_class class = {
	.kind = 's',
	.count = 6,
	.types = { WM_TYPE_STR, WM_TYPE_I64, WM_TYPE_U64, WM_TYPE_I64, WM_TYPE_I64, WM_TYPE_I64 },
	.name = (char *)"shop:order:sum",
	.fields = fields,
};
static const struct sums_class classes[] = { { .class = &class, .keys = 2 } };
static struct sums_lines lines;

static void begin(void)
{
	lines = (struct sums_lines){ .classes = classes };
}

static void end(void)
{
	sums_lines_clear(&lines);
}

TestSuite(sums_lines, .init = begin, .fini = end);

/* `count` hits whose size is `size` each, whose bucket that is, too. */
static void hits(const char *kind, uint64_t count, int64_t size)
{
	uint64_t values[SUM_FIELDS_MAX] = { count * (uint64_t)size, (uint64_t)size,
					    (uint64_t)size };
	struct sums_part part = { .count = count, .bucket = (uint64_t)size, .values = values };
	size_t by = lines.texts.bytes;

	text_add(&lines.texts, kind, strlen(kind) + 1);
	cr_assert_eq(sums_lines_add(&lines, by, &part), 0);
}

/* "KIND COUNT SUM MIN MAX", of all lines in their order. */
static const char *all(void)
{
	static char text[512];

	text[0] = 0;
	for (size_t i = 0; i < lines.count; i++) {
		const struct sums_line *line = &lines.all[i];

		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "%s%s %llu %lld %lld %lld", i ? "; " : "", lines.texts.at + line->by,
			 (unsigned long long)line->count, (long long)line->values[0],
			 (long long)line->values[1], (long long)line->values[2]);
	}
	return text;
}

Test(sums_lines, equal_texts_are_one_line)
{
	hits("tea", 2, 5);
	hits("rum", 1, 100);
	hits("tea", 1, -3);
	sums_lines_sort(&lines);
	cr_expect_str_eq(all(), "rum 1 100 100 100; tea 3 7 -3 5");
	cr_expect_eq(sums_lines_rows(&lines), 2, "a field is one row, whatever is asked of it");
}

Test(sums_lines, what_has_no_room_is_one_line)
{
	lines.most = 2;
	hits("tea", 1, 1);
	hits("rum", 1, 2);
	hits("ale", 1, 3);
	hits("tea", 1, 4);
	hits("gin", 1, 5);
	sums_lines_sort(&lines);
	cr_expect_str_eq(all(), "tea 2 5 1 4; rum 1 2 2 2; (other) 2 8 3 5");
}

Test(sums_lines, are_cut_to_the_greatest_and_the_rest)
{
	for (int i = 1; i <= 5; i++)
		hits((const char *[]){ "a", "b", "c", "d", "e" }[i - 1], 1, i);
	sums_lines_sort(&lines);
	cr_assert_eq(sums_lines_cut(&lines, 2), 0);
	cr_expect_str_eq(all(), "e 1 5 5 5; d 1 4 4 4; (other) 3 6 1 3");
	cr_expect_eq(lines.all[2].different, 3);
	cr_expect_eq(lines.all[2].buckets[1 + 1], 1, "the first is of what is below 0");
	cr_expect_eq(lines.all[2].buckets[1 + 3], 1);
}

/* The rows of a table, as CSV. */
static const char *csv(void (*put)(const struct sums_lines *lines, struct rows *rows))
{
	static struct text text;
	struct out out;
	struct rows rows;

	text_release(&text);
	output_to_text(&out, &text);
	rows_begin(&rows, &out, ROWS_CSV);
	put(&lines, &rows);
	cr_assert_eq(rows_end(&rows), 0);
	text_add(&text, "", 1);
	return text.at;
}

static void put_all(const struct sums_lines *of, struct rows *rows)
{
	sums_lines_put(of, rows, SIZE_MAX);
}

Test(sums_lines, quantiles_are_of_the_buckets)
{
	hits("tea", 97, 10);
	hits("tea", 3, 1000);
	cr_expect_str_eq(
		csv(put_all),
		"from_ns,count,field,sum,mean,min,max,p50,p99,other,event,fields,by\n"
		",100,\"size\",3970,39.7,10,1000,10,896,,\"shop:order\",\"kind\",\"tea\"\n");
	cr_expect_str_eq(csv(sums_lines_put_buckets),
			 "from,to,count,field,event,by\n"
			 "10,12,97,\"size\",\"shop:order\",\"tea\"\n"
			 "896,1024,3,\"size\",\"shop:order\",\"tea\"\n");
}

Test(sums_lines, what_is_below_0_comes_first)
{
	hits("tea", 2, -5);
	hits("tea", 1, 7);
	cr_expect_str_eq(csv(sums_lines_put_buckets), "from,to,count,field,event,by\n"
						      ",0,2,\"size\",\"shop:order\",\"tea\"\n"
						      "7,8,1,\"size\",\"shop:order\",\"tea\"\n");
}

/* A sum of addresses, say. */
Test(sums_lines, an_unsigned_value_is_whole)
{
	static const struct trace_class unsigned_class = {
		.kind = 's',
		.count = 2,
		.types = { WM_TYPE_U64, WM_TYPE_U64 },
		.name = (char *)"shop:order:sum",
		.fields = fields + 2,
	};
	static const struct sums_class unsigned_classes[] = { { .class = &unsigned_class } };

	lines.classes = unsigned_classes;
	hits("", 1, -1);
	cr_expect_str_eq(
		csv(put_all),
		"from_ns,count,field,sum,mean,min,max,p50,p99,other,event,fields,by\n"
		",1,\"size\",18446744073709551615,1.8446744073709552e+19,,,,,,\"shop:order\",,\n");
}

Test(sums_lines, one_more_than_asked_for_is_itself)
{
	hits("a", 1, 1);
	hits("b", 1, 2);
	sums_lines_sort(&lines);
	cr_assert_eq(sums_lines_cut(&lines, 1), 0);
	cr_expect_str_eq(all(), "b 1 2 2 2; a 1 1 1 1");
}

Test(sums_lines, intervals_are_apart_and_in_order)
{
	uint64_t values[SUM_FIELDS_MAX] = { 1, 1, 1 };

	for (uint64_t i = 3; i--;) {
		struct sums_part part = { .interval = i, .count = i + 1, .values = values };
		size_t by = lines.texts.bytes;

		text_add(&lines.texts, "tea", 4);
		cr_assert_eq(sums_lines_add(&lines, by, &part), 0);
	}
	sums_lines_sort(&lines);
	cr_assert_eq(lines.count, 3);
	for (uint64_t i = 0; i < 3; i++)
		cr_expect_eq(lines.all[i].count, i + 1);
}
