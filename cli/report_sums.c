/* SPDX-License-Identifier: MIT */
/*
 * Sums of a trace (record -e 'func:malloc/sum=arg1,by=caller/'), as report prints them, and record
 * at its end. Addresses become places here, so rows of several processes are added up once more, by
 * what is printed of their values.
 */
#include "cli/report.h"

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/sums_lines.h"
#include "cli/watch_where.h"
#include "read/pass/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/marker.h>

/* ---- values as text ---- */

static void place_put(struct text *text, const struct report_sums *of, const struct sums_row *row,
		      uint64_t address)
{
	/* a return address: the call is before it */
	const struct where *where = address ? watch_where_at(of->wheres, row->process, row->last_ns,
							     address - 1)
					    : NULL;
	char place[WATCH_WHERE_BYTES];

	text_format(text, "%s", where ? watch_where_text(where, place, sizeof(place)) : "?");
}

/* The callers, the innermost first, behind the place itself. */
static void callchain_put(struct text *text, const struct report_sums *of,
			  const struct sums_row *row, const uint8_t *at)
{
	uint32_t count;
	uint64_t address;

	memcpy(&count, at + 1, sizeof(count));
	for (uint32_t i = 1; i < count; i++) {
		memcpy(&address, at + 5 + (size_t)i * sizeof(address), sizeof(address));
		text_format(text, "%s", i > 1 ? " < " : "");
		place_put(text, of, row, address);
	}
}

static void values_put(struct text *text, const struct report_sums *of, const struct sums_row *row)
{
	const struct sums_class *class = &of->sums.classes[row->class];
	const uint8_t *at = of->sums.keys + row->key;
	const char *name;
	uint64_t address;
	struct out out;

	for (unsigned int i = 0; i < class->keys && !row->is_other; i++) {
		uint8_t type = class->class->types[i];

		if (sums_field(class, i, &name) == SUM_HIST)
			break; /* the last one */
		text_format(text, "%s", i ? ", " : "");
		if (type == WM_TYPE_ADDRESSES) {
			callchain_put(text, of, row, at);
		} else if (type == WM_TYPE_PTR && !strcmp(name, SUM_CALLER)) {
			memcpy(&address, at, sizeof(address));
			place_put(text, of, row, address);
		} else {
			output_to_text(&out, text);
			format_value(&out, class->class, i, at);
			out_flush(&out);
		}
		at = format_field_end(type, at);
	}
	if (row->is_other)
		text_format(text, SUMS_OTHER);
	text_add(text, "", 1);
}

/* The bucket of a row is the last of its values. */
static uint64_t bucket_of(const struct report_sums *of, const struct sums_row *row)
{
	uint64_t value = 0;

	if (row->key_bytes >= sizeof(value))
		memcpy(&value, of->sums.keys + row->key + row->key_bytes - sizeof(value),
		       sizeof(value));
	return value;
}

int report_sums_print(const struct report_sums *of, uint64_t shown, struct rows *rows)
{
	struct sums_lines lines = { .classes = of->sums.classes,
				    .every_ns = of->sums.wish.every_ns };
	int err = 0;

	for (size_t i = 0; i < of->sums.count && !err; i++) {
		const struct sums_row *row = &of->sums.rows[i];
		struct sums_part part = { row->interval, row->class, row->count, bucket_of(of, row),
					  row->values };
		size_t by = lines.texts.bytes;

		values_put(&lines.texts, of, row);
		err = sums_lines_add(&lines, by, &part);
	}
	if (!err)
		sums_lines_sort(&lines);
	if (!err && shown && rows->format == ROWS_TEXT)
		err = sums_lines_cut(&lines, shown);
	if (!err && lines.count) {
		sums_lines_put(&lines, rows, SIZE_MAX);
		if (!lines.every_ns)
			sums_lines_put_buckets(&lines, rows);
	}
	sums_lines_clear(&lines);
	return err;
}

int report_sums_of(const char *dir, uint64_t shown)
{
	struct report_sums of = { .wheres = NULL };
	struct pass_observer *observer = &of.sums.observer;
	struct images images = { 0 };
	struct trace_reader *reader;
	int err = trace_reader_open(&reader, dir);

	if (err)
		return err;
	err = images_open(&images, reader, NULL);
	if (!err)
		err = watch_wheres_read(&of.wheres, &images);
	if (!err)
		err = sums_open(&of.sums, reader, NULL);
	if (!err)
		err = pass_read(reader, &observer, 1);
	if (!err && of.sums.count) {
		err = report_sums_print(&of, shown, output_rows(ROWS_TEXT));
		output_rows_end(CLI_FINE);
	}
	sums_release(&of.sums);
	watch_wheres_free(of.wheres);
	images_close(&images);
	trace_reader_close(reader);
	return err;
}
