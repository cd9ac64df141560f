/* SPDX-License-Identifier: MIT */
#include "read/rows/render.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct row_column columns[] = {
	{ "name", ROW_TEXT, ROW_PLAIN, 0, "" },
	{ "count", ROW_U64, ROW_COUNT, 0, "" },
	{ "per_second", ROW_DOUBLE, ROW_PLAIN, 0, "" },
	{ "longest", ROW_U64, ROW_NS, ROW_QUIET, "" },
	{ "share", ROW_DOUBLE, ROW_SHARE, ROW_DETAIL, "" },
	{ "place", ROW_ADDRESS, ROW_PLAIN, 0, "" },
	{ "file", ROW_TEXT, ROW_PLAIN, 0, "" },
};
static ROW_TABLE(table, "event", "", columns);

static struct out out;
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

static void begin(struct rows *rows, enum rows_format format)
{
	out_init(&out, -1);
	out.write = keep;
	rows_begin(rows, &out, format);
}

static const char *end(struct rows *rows)
{
	cr_assert_eq(rows_end(rows), 0);
	return printed;
}

static void put(struct rows *rows, const char *name, uint64_t count, uint64_t ns, const char *file)
{
	const struct row_value row[] = {
		row_words(name), row_u64(count), row_double(2.5),
		row_u64(ns),	 row_double(50), file ? row_address(0x401000) : row_null(),
		row_text(file),
	};

	rows_put(rows, row);
}

Test(render, text_aligns_by_type_and_pads_nothing_at_the_end)
{
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows_open(&rows, &table, NULL);
	put(&rows, "db:query", 12, 1500, "a.c");
	put(&rows, "x", 3, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "EVENT     COUNT  PER SECOND  LONGEST     PLACE  FILE\n"
				     "db:query     12         2.5  1.50 us  0x401000  a.c\n"
				     "x             3         2.5        -         -  -\n");
}

Test(render, text_hides_columns_without_values)
{
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows_open(&rows, &table, &(struct rows_layout){ .title = "Events" });
	put(&rows, "x", 3, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "Events\n"
				     "EVENT  COUNT  PER SECOND\n"
				     "x          3         2.5\n");
}

Test(render, text_names_rows_left_out_and_tables_without_rows)
{
	const struct rows_layout layout = {
		.shown = 1, .hidden = 4, .none = "no events", .more = "--json lists all"
	};
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows_open(&rows, &table, &layout);
	rows_close(&rows);
	rows_open(&rows, &table, &layout);
	put(&rows, "x", 1, 0, NULL);
	put(&rows, "y", 2, 0, NULL);
	put(&rows, "z", 3, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "no events\n"
				     "\n"
				     "EVENT  COUNT\n"
				     "x          1\n"
				     "-- 2 more: --json lists all\n");
}

Test(render, text_ends_where_the_terminal_does)
{
	static const struct row_column own[] = {
		{ "tid", ROW_TEXT, ROW_PLAIN, ROW_RIGHT, "" },
		{ "value", ROW_TEXT, ROW_PLAIN, ROW_QUOTED, "" },
	};
	static ROW_TABLE(values, "value", "", own);
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows.columns = 12;
	rows_open(&rows, &values, NULL);
	ROWS_PUT(&rows, own, row_text("7"), row_text("\"\\000\x1b\""));
	ROWS_PUT(&rows, own, row_text("4 threads"), row_text("ééé"));
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "      TID  V\n"
				     "        7  \"\n"
				     "4 threads  é\n");
	bytes = 0;
	memset(printed, 0, sizeof(printed));
	begin(&rows, ROWS_TEXT);
	rows_open(&rows, &values, NULL);
	ROWS_PUT(&rows, own, row_text("7"), row_text("\"\\000\x1b\""));
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "TID  VALUE\n"
				     "  7  \"\\000?\"\n");
}

Test(render, text_in_given_widths_prints_each_row_at_once)
{
	static const unsigned char widths[] = { 6, 3, 0, 9, 0, 0, 0 };
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows_open(&rows, &table,
		  &(struct rows_layout){ .widths = widths, .hidden = 4 | 32 | 64, .is_bare = 1 });
	put(&rows, "x", 1, 2000000, NULL);
	out_flush(&out);
	cr_assert_str_eq(printed, "x         1    2.00 ms\n");
	rows_close(&rows);
	end(&rows);
}

Test(render, json_puts_records_and_tables_into_one_object)
{
	struct rows rows;

	begin(&rows, ROWS_JSON);
	rows_record(&rows, &table,
		    (struct row_value[]){ row_text("all"), row_s64(-1), row_double(1.0 / 0.0),
					  row_known(0), row_bool(1), row_null(), row_words("") });
	rows_open(&rows, &table, &(struct rows_layout){ .shown = 1, .last = 2 });
	put(&rows, "a\"\n\x1b\xff", 1, 2000, "b.c");
	put(&rows, "b", 2, 0, NULL);
	put(&rows, "c", 3, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(
		end(&rows),
		"{\"name\":\"all\",\"count\":-1,\"per_second\":null,\"longest_ns\":null,"
		"\"share_percent\":true,\"place\":null,\"file\":null,\"event\":["
		"{\"name\":\"a\\\"\\n\\u001b\\ufffd\",\"count\":1,\"per_second\":2.5,"
		"\"longest_ns\":2000,\"share_percent\":50,\"place\":\"0x401000\",\"file\":\"b.c\"},"
		"{\"name\":\"b\",\"count\":2,\"per_second\":2.5,\"longest_ns\":0,"
		"\"share_percent\":50,\"place\":null,\"file\":null}]}\n");
}

Test(render, json_lines_name_their_table)
{
	struct rows rows;

	begin(&rows, ROWS_JSON_LINES);
	rows_open(&rows, &table, NULL);
	put(&rows, "x", 1, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(end(&rows),
			 "{\"type\":\"event\",\"name\":\"x\",\"count\":1,\"per_second\":2.5,"
			 "\"longest_ns\":0,\"share_percent\":50,\"place\":null,"
			 "\"file\":null}\n");
}

Test(render, csv_quotes_and_escapes_text)
{
	struct rows rows;

	begin(&rows, ROWS_CSV);
	rows_open(&rows, &table, NULL);
	put(&rows, "a,\"b\"\n\xff", 1, 0, "f.c");
	put(&rows, NULL, 2, 0, NULL);
	rows_close(&rows);
	cr_assert_str_eq(end(&rows), "name,count,per_second,longest_ns,share_percent,place,file\n"
				     "\"a,\"\"b\"\"\\n\\xff\",1,2.5,0,50,0x401000,\"f.c\"\n"
				     ",2,2.5,0,50,,\n");
}

Test(render, text_of_a_record_is_a_line_for_each_value)
{
	struct rows rows;

	begin(&rows, ROWS_TEXT);
	rows_record(&rows, &table,
		    (struct row_value[]){ row_text("a\x1b[31m"), row_u64(7), row_null(), row_u64(0),
					  row_double(1), row_address(16), row_words("f") });
	cr_assert_str_eq(end(&rows), "Name         a\\x1b[31m\n"
				     "Count        7\n"
				     "Place        0x10\n"
				     "File         f\n");
}
