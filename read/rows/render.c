/* SPDX-License-Identifier: MIT */
#include "read/rows/render.h"

#include "base/array.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000u
#define CELL_BYTES_MAX 16384u /* of a text in a cell; escaped, it fits into an out */
#define WIDTH_MAX 48u	      /* that a long text gives its column */
#define RECORD_COLUMNS 12

static const char *const suffixes[] = {
	[ROW_PLAIN] = "",    [ROW_COUNT] = "",	     [ROW_NS] = "_ns",	       [ROW_TIME] = "_ns",
	[ROW_SINCE] = "_ns", [ROW_BYTES] = "_bytes", [ROW_SHARE] = "_percent",
};

static const char *suffix_of(const struct row_column *column)
{
	const char *suffix = suffixes[column->unit];

	return *suffix && !strcmp(column->name, suffix + 1) ? "" : suffix;
}

const char *rows_key(const struct row_column *column, char text[ROWS_KEY_BYTES])
{
	snprintf(text, ROWS_KEY_BYTES, "%s%s", column->name, suffix_of(column));
	return text;
}

const char *rows_ns(double ns, char text[24])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	unsigned int unit = 0;

	while (ns >= 999.5 && unit < 3) {
		ns /= 1000;
		unit++;
	}
	snprintf(text, 24,
		 ns < 10 && unit    ? "%.2f %s"
		 : ns < 100 && unit ? "%.1f %s"
				    : "%.0f %s",
		 ns, units[unit]);
	return text;
}

const char *rows_bytes(uint64_t bytes, char text[24])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double size = (double)bytes;
	unsigned int unit = 0;

	while (size >= 1024 && unit < 4) {
		size /= 1024;
		unit++;
	}
	snprintf(text, 24, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
	return text;
}

/* ---- values ---- */

static double number_of(const struct row_value *value)
{
	return value->type == ROW_DOUBLE ? value->real
	       : value->type == ROW_S64	 ? (double)value->s64
					 : (double)value->u64;
}

static int is_empty(const struct row_column *column, const struct row_value *value)
{
	if (value->type == ROW_NULL || (value->type == ROW_TEXT && !*value->text))
		return 1;
	if (!(column->flags & ROW_QUIET) || value->type == ROW_TEXT)
		return 0;
	return value->type == ROW_DOUBLE ? fpclassify(value->real) == FP_ZERO : !value->u64;
}

static void put_words(struct out *out, const char *text)
{
	out_text(out, text, strlen(text));
}

static void put_clock(struct out *out, uint64_t ns)
{
	time_t second = (time_t)(ns / NS_PER_S);
	char text[32] = "?";
	struct tm parts;

	if (localtime_r(&second, &parts))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
	put_words(out, text);
	out_char(out, '.');
	out_nine(out, (uint32_t)(ns % NS_PER_S));
}

static void put_since(struct out *out, const struct row_value *value)
{
	int is_before = value->type == ROW_S64 && value->s64 < 0;
	uint64_t ns = is_before ? 0 - value->u64 : value->u64;

	if (is_before)
		out_char(out, '-');
	out_u64(out, ns / NS_PER_S);
	out_char(out, '.');
	out_nine(out, (uint32_t)(ns % NS_PER_S));
}

static void put_real(struct out *out, const char *format, double value)
{
	char text[340];

	snprintf(text, sizeof(text), format, value);
	put_words(out, text);
}

/* What has a unit, for people. Returns 0 where there is none. */
static int put_unit(struct out *out, enum row_unit unit, const struct row_value *value)
{
	char text[24];

	switch (unit) {
	case ROW_NS:
		put_words(out, rows_ns(number_of(value), text));
		return 1;
	case ROW_TIME:
		put_clock(out, value->u64);
		return 1;
	case ROW_SINCE:
		put_since(out, value);
		return 1;
	case ROW_BYTES:
		put_words(out, rows_bytes(value->u64, text));
		return 1;
	case ROW_SHARE:
		put_real(out, "%.1f%%", number_of(value));
		return 1;
	default:
		return 0;
	}
}

/* As people read it. */
static void put_text(struct out *out, const struct row_column *column,
		     const struct row_value *value)
{
	char tamed[CELL_BYTES_MAX];

	if (value->type != ROW_TEXT &&
	    put_unit(out, value->unit ? value->unit : column->unit, value))
		return;
	if (value->type == ROW_TEXT && column->flags & ROW_QUOTED) {
		out_text(out, tamed, out_tame(tamed, sizeof(tamed), value->text));
		return;
	}
	switch (value->type) {
	case ROW_BOOL:
		put_words(out, value->u64 ? "yes" : "no");
		break;
	case ROW_U64:
		out_u64(out, value->u64);
		break;
	case ROW_S64:
		out_i64(out, value->s64);
		break;
	case ROW_DOUBLE:
		put_real(out, "%.1f", value->real);
		break;
	case ROW_ADDRESS:
		out_hex(out, value->u64);
		break;
	case ROW_TEXT:
		out_escaped(out, value->text, strnlen(value->text, CELL_BYTES_MAX));
		break;
	default:
		break;
	}
}

/* A number as programs read it. */
static void put_number(struct out *out, const struct row_value *value)
{
	if (value->type == ROW_S64)
		out_i64(out, value->s64);
	else if (value->type == ROW_DOUBLE)
		out_f64(out, value->real);
	else
		out_u64(out, value->u64);
}

static void put_json(struct out *out, const struct row_value *value)
{
	switch (value->type) {
	case ROW_BOOL:
		put_words(out, value->u64 ? "true" : "false");
		break;
	case ROW_ADDRESS:
		out_char(out, '"');
		out_hex(out, value->u64);
		out_char(out, '"');
		break;
	case ROW_TEXT:
		out_char(out, '"');
		out_json(out, value->text, strlen(value->text));
		out_char(out, '"');
		break;
	case ROW_U64:
	case ROW_S64:
		put_number(out, value);
		break;
	case ROW_DOUBLE:
		if (isfinite(value->real)) {
			put_number(out, value);
			break;
		}
		/* fallthrough */
	default:
		out_literal(out, "null");
	}
}

/* Text within quotes, each quote in it twice. */
static void put_csv_text(struct out *out, const char *text)
{
	out_char(out, '"');
	for (;;) {
		size_t bytes = strcspn(text, "\"");

		out_escaped(out, text, bytes);
		text += bytes;
		if (!*text++)
			break;
		out_literal(out, "\"\"");
	}
	out_char(out, '"');
}

static void put_csv(struct out *out, const struct row_value *value)
{
	if (value->type == ROW_TEXT)
		put_csv_text(out, value->text);
	else if (value->type == ROW_ADDRESS)
		out_hex(out, value->u64);
	else if (value->type == ROW_BOOL)
		put_words(out, value->u64 ? "true" : "false");
	else if (value->type != ROW_NULL)
		put_number(out, value);
}

/* ---- JSON and CSV ---- */

static void put_key(struct out *out, const char *name, const char *suffix)
{
	out_char(out, '"');
	put_words(out, name);
	put_words(out, suffix);
	out_literal(out, "\":");
}

/* Members of an object, with `follows` a comma before the first. */
static void put_members(struct rows *rows, const struct row_table *table,
			const struct row_value *row, int follows)
{
	for (unsigned int i = 0; i < table->count; i++) {
		if (table->columns[i].flags & ROW_FOR_TEXT)
			continue;
		if (follows)
			out_char(rows->out, ',');
		follows = 1;
		put_key(rows->out, table->columns[i].name, suffix_of(&table->columns[i]));
		put_json(rows->out, &row[i]);
	}
}

static void put_json_line(struct rows *rows, const struct row_table *table,
			  const struct row_value *row)
{
	out_literal(rows->out, "{\"type\":\"");
	put_words(rows->out, table->name);
	out_char(rows->out, '"');
	put_members(rows, table, row, 1);
	out_literal(rows->out, "}\n");
}

static void put_csv_keys(struct rows *rows, const struct row_table *table)
{
	char key[ROWS_KEY_BYTES];
	int follows = 0;

	if (rows->has_text)
		out_char(rows->out, '\n');
	rows->has_text = 1;
	for (unsigned int i = 0; i < table->count; i++) {
		if (table->columns[i].flags & ROW_FOR_TEXT)
			continue;
		if (follows++)
			out_char(rows->out, ',');
		put_words(rows->out, rows_key(&table->columns[i], key));
	}
	out_char(rows->out, '\n');
}

static void put_csv_row(struct rows *rows, const struct row_table *table,
			const struct row_value *row)
{
	int follows = 0;

	for (unsigned int i = 0; i < table->count; i++) {
		if (table->columns[i].flags & ROW_FOR_TEXT)
			continue;
		if (follows++)
			out_char(rows->out, ',');
		put_csv(rows->out, &row[i]);
	}
	out_char(rows->out, '\n');
}

/* ---- text ---- */

/* A column's title in text[], which is returned. */
static const char *title_of(const struct row_table *table, unsigned int column,
			    char text[ROWS_KEY_BYTES])
{
	const char *name = table->columns[column].name;
	size_t at = 0;

	if (!strcmp(name, "name"))
		name = table->name;
	for (; name[at] && at + 1 < ROWS_KEY_BYTES; at++)
		text[at] = name[at] == '_' ? ' ' : (char)toupper((unsigned char)name[at]);
	text[at] = '\0';
	return text;
}

/* Columns of a terminal: a character is one. */
static size_t width_of(const char *text, size_t bytes)
{
	size_t width = 0;

	for (size_t i = 0; i < bytes; i++)
		width += ((unsigned char)text[i] & 0xc0) != 0x80;
	return width;
}

/* A part of a line, as far as that has room. */
static void put_part(struct rows *rows, const char *text, size_t bytes)
{
	size_t fits = 0;

	for (; fits < bytes; fits++) {
		rows->column += ((unsigned char)text[fits] & 0xc0) != 0x80;
		if (rows->columns && rows->column > rows->columns)
			break;
	}
	out_text(rows->out, text, fits);
}

/* One cell of a line, in its place among the columns that are shown; without a value '-'. */
static void put_cell(struct rows *rows, unsigned int place, const char *value, size_t bytes)
{
	const char *text = bytes ? value : "-";
	unsigned int column = rows->shown[place];
	size_t width = bytes ? width_of(text, bytes) : 1, all = rows->widths[column];
	int is_left = rows->table->columns[column].type == ROW_TEXT &&
		      !(rows->table->columns[column].flags & ROW_RIGHT);
	int is_last = place + 1 == rows->shown_count;

	if (place)
		put_part(rows, "  ", 2);
	for (size_t at = width; at < all && !is_left; at++)
		put_part(rows, " ", 1);
	put_part(rows, text, bytes ? bytes : 1);
	for (size_t at = width; at < all && is_left && !is_last; at++)
		put_part(rows, " ", 1);
	if (is_last) {
		out_char(rows->out, '\n');
		rows->column = 0;
	}
}

/* A row's cell in rows->cell, unless it has no value. Returns its bytes. */
static size_t cell_make(struct rows *rows, const struct row_column *column,
			const struct row_value *value)
{
	rows->cell->at = rows->cell->bytes;
	if (!is_empty(column, value))
		put_text(rows->cell, column, value);
	return (size_t)(rows->cell->at - rows->cell->bytes);
}

static void put_row_now(struct rows *rows, const struct row_value *row)
{
	for (unsigned int i = 0; i < rows->shown_count; i++) {
		const struct row_column *column = &rows->table->columns[rows->shown[i]];

		put_cell(rows, i, rows->cell->bytes, cell_make(rows, column, &row[rows->shown[i]]));
	}
}

/* Keep a row until all widths are known. */
static void row_keep(struct rows *rows, const struct row_value *row)
{
	size_t at = (size_t)rows->printed * rows->shown_count;

	if (array_grow(&rows->ends, &rows->end_room, at + rows->shown_count, sizeof(*rows->ends))) {
		rows->out->error = -ENOMEM;
		return;
	}
	for (unsigned int i = 0; i < rows->shown_count; i++) {
		unsigned int column = rows->shown[i];
		size_t bytes = cell_make(rows, &rows->table->columns[column], &row[column]);
		size_t width = width_of(rows->cell->bytes, bytes);

		if (rows->table->columns[column].type == ROW_TEXT && width > WIDTH_MAX)
			width = WIDTH_MAX;
		if (width > rows->widths[column])
			rows->widths[column] = width;
		text_add(&rows->cells, rows->cell->bytes, bytes);
		rows->ends[at + i] = rows->cells.bytes;
	}
}

static void rows_begin_table(struct rows *rows)
{
	char title[ROWS_KEY_BYTES];

	if (rows->has_text)
		out_char(rows->out, '\n');
	rows->has_text = 1;
	rows->ends_table = 0;
	if (rows->layout.title) {
		out_escaped(rows->out, rows->layout.title, strlen(rows->layout.title));
		out_char(rows->out, '\n');
	}
	for (unsigned int i = 0; i < rows->shown_count && !rows->layout.is_bare; i++) {
		unsigned int column = rows->shown[i];
		size_t width = strlen(title_of(rows->table, column, title));

		if (width > rows->widths[column])
			rows->widths[column] = width;
	}
	for (unsigned int i = 0; i < rows->shown_count && !rows->layout.is_bare; i++)
		put_cell(rows, i, title, strlen(title_of(rows->table, rows->shown[i], title)));
}

/* The rows that were kept, without the columns that have no value in any. */
static void put_kept(struct rows *rows)
{
	unsigned int all = rows->shown_count, places[ROW_COLUMNS_MAX], count = 0;

	for (unsigned int i = 0; i < all; i++)
		if (rows->widths[rows->shown[i]]) {
			places[count] = i;
			rows->shown[count++] = rows->shown[i];
		}
	rows->shown_count = count;
	if (!count)
		return;
	rows_begin_table(rows);
	for (uint64_t row = 0; row < rows->printed; row++)
		for (unsigned int i = 0; i < count; i++) {
			size_t at = (size_t)row * all + places[i];
			size_t from = at ? rows->ends[at - 1] : 0, bytes = rows->ends[at] - from;

			put_cell(rows, i, rows->cells.at + from, bytes);
		}
}

/* ---- tables ---- */

void rows_begin(struct rows *rows, struct out *out, enum rows_format format)
{
	*rows = (struct rows){ .out = out, .format = format };
	if (format == ROWS_JSON)
		out_char(out, '{');
	if (format != ROWS_TEXT)
		return;
	rows->cell = malloc(sizeof(*rows->cell));
	if (rows->cell)
		out_init(rows->cell, -1);
	else
		out->error = -ENOMEM;
}

int rows_end(struct rows *rows)
{
	if (rows->format == ROWS_JSON)
		out_literal(rows->out, "}\n");
	if (rows->cells.error && !rows->out->error)
		rows->out->error = rows->cells.error;
	text_release(&rows->cells);
	free(rows->ends);
	free(rows->cell);
	return out_flush(rows->out);
}

static void record_text(struct rows *rows, const struct row_table *table,
			const struct row_value *row)
{
	for (unsigned int i = 0; i < table->count; i++) {
		const struct row_column *column = &table->columns[i];
		size_t width = strlen(column->name);

		if (column->flags & ROW_DETAIL || is_empty(column, &row[i]))
			continue;
		out_char(rows->out, (char)toupper((unsigned char)column->name[0]));
		for (const char *at = column->name + 1; *at; at++)
			out_char(rows->out, *at == '_' ? ' ' : *at);
		for (; width <= RECORD_COLUMNS; width++)
			out_char(rows->out, ' ');
		put_text(rows->out, column, &row[i]);
		out_char(rows->out, '\n');
		rows->has_text = 1;
	}
}

void rows_record(struct rows *rows, const struct row_table *table, const struct row_value *row)
{
	switch (rows->format) {
	case ROWS_TEXT:
		record_text(rows, table, row);
		break;
	case ROWS_JSON:
		put_members(rows, table, row, rows->follows);
		rows->follows = 1;
		break;
	case ROWS_JSON_LINES:
		put_json_line(rows, table, row);
		break;
	case ROWS_CSV:
		put_csv_keys(rows, table);
		put_csv_row(rows, table, row);
		break;
	}
}

void rows_open(struct rows *rows, const struct row_table *table, const struct rows_layout *layout)
{
	rows->table = table;
	rows->layout = layout ? *layout : (struct rows_layout){ 0 };
	rows->count = rows->printed = rows->skipped = 0;
	rows->shown_count = 0;
	rows->cells.bytes = 0;
	if (rows->format == ROWS_CSV)
		put_csv_keys(rows, table);
	if (rows->format == ROWS_JSON) {
		if (rows->follows)
			out_char(rows->out, ',');
		rows->follows = 1;
		put_key(rows->out, table->name, "");
		out_char(rows->out, '[');
	}
	for (unsigned int i = 0; i < table->count; i++) {
		rows->widths[i] = rows->layout.widths ? rows->layout.widths[i] : 0;
		if (!(table->columns[i].flags & ROW_DETAIL) && !(rows->layout.hidden >> i & 1))
			rows->shown[rows->shown_count++] = i;
	}
	if (rows->format == ROWS_TEXT && rows->layout.widths)
		rows_begin_table(rows);
}

void rows_put(struct rows *rows, const struct row_value *row)
{
	const struct rows_layout *layout = &rows->layout;

	rows->count++;
	if (rows->out->error || (layout->last && rows->count > layout->last) ||
	    (rows->format == ROWS_TEXT && layout->shown && rows->count > layout->shown))
		return;
	switch (rows->format) {
	case ROWS_TEXT:
		if (layout->widths)
			put_row_now(rows, row);
		else
			row_keep(rows, row);
		break;
	case ROWS_JSON:
		if (rows->printed)
			out_char(rows->out, ',');
		out_char(rows->out, '{');
		put_members(rows, rows->table, row, 0);
		out_char(rows->out, '}');
		break;
	case ROWS_JSON_LINES:
		put_json_line(rows, rows->table, row);
		break;
	case ROWS_CSV:
		put_csv_row(rows, rows->table, row);
		break;
	}
	rows->printed++;
}

void rows_close(struct rows *rows)
{
	const struct rows_layout *layout = &rows->layout;
	uint64_t left_out = rows->skipped;

	if (rows->format == ROWS_JSON)
		out_char(rows->out, ']');
	if (rows->format != ROWS_TEXT || rows->out->error || rows->cells.error ||
	    !rows->shown_count)
		return;
	if (!rows->count && layout->none)
		rows_note(rows, "%s", layout->none);
	if (!rows->count && !left_out)
		return;
	if (rows->printed && !layout->widths)
		put_kept(rows);
	left_out += rows->count - rows->printed;
	rows->ends_table = 0;
	if (left_out)
		rows_note(rows, "-- %llu more%s%s", (unsigned long long)left_out,
			  layout->more ? ": " : "", layout->more ? layout->more : "");
	rows->ends_table = rows->printed || left_out;
}

void rows_skip(struct rows *rows, uint64_t count)
{
	rows->skipped += count;
}

void rows_note(struct rows *rows, const char *format, ...)
{
	char text[4096], tamed[4096];
	va_list values;

	if (rows->format != ROWS_TEXT)
		return;
	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	if (rows->ends_table)
		out_char(rows->out, '\n');
	rows->ends_table = 0;
	out_text(rows->out, tamed, out_tame(tamed, sizeof(tamed), text));
	out_char(rows->out, '\n');
	rows->has_text = 1;
}
