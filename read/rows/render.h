/* SPDX-License-Identifier: MIT */
/*
 * The one printer of rows: as text tables, one JSON object, JSON lines, or CSV.
 *
 *	struct rows rows;
 *
 *	rows_begin(&rows, &out, ROWS_TEXT);
 *	rows_record(&rows, &trace_table, values);
 *	rows_open(&rows, &event_table, &(struct rows_layout){ .shown = 20 });
 *	while (...)
 *		rows_put(&rows, values);
 *	rows_close(&rows);
 *	err = rows_end(&rows);
 *
 * - Text: a title and a line a row; numbers are right-aligned. Columns without any value are left
 *   out. A record is a line for each value: "Host         here".
 * - JSON: {"host":"here","event":[{"name":"db:query","count":2},...]}. A record's members are the
 *   object's own. A column's key is its name and its unit's suffix.
 * - JSON lines: one object a row, which begins with "type":"event".
 * - CSV: each table has a line of keys, and an empty line before it.
 *
 * Text of programs and files is escaped in each: control characters, line ends, what is not UTF-8.
 * Errors stay in the `out` until rows_end(). One thread.
 */
#ifndef READ_ROWS_RENDER_H
#define READ_ROWS_RENDER_H

#include "base/out.h"
#include "base/text_buffer.h"
#include "read/rows/row.h"

#include <stddef.h>
#include <stdint.h>

enum rows_format { ROWS_TEXT, ROWS_JSON, ROWS_JSON_LINES, ROWS_CSV };

/* How a table is printed. All 0: whole, and nothing where it has no rows. */
struct rows_layout {
	const char *title;	     /* text: a line before the table */
	const char *none;	     /* text: the line of a table without rows */
	const char *more;	     /* text: how to see the rows left out: "-n 0 shows all" */
	uint64_t last;		     /* print so many rows; 0: all */
	uint64_t shown;		     /* text: print so many; 0: all */
	uint64_t hidden;	     /* text: columns to leave out, a bit each */
	const unsigned char *widths; /* text: print rows as they come, in these widths */
	int is_bare;		     /* text: no line of titles */
};

struct rows {
	struct out *out;
	enum rows_format format;
	size_t columns; /* text: where lines end; 0: anywhere. Set it after rows_begin() */
	const struct row_table *table; /* that is open */
	struct rows_layout layout;
	uint64_t count, printed, skipped; /* rows put, of them printed; rows_skip() */
	int has_text;			  /* text, CSV: an empty line goes before a table */
	int ends_table;			  /* text: and before a note */
	int follows;			  /* JSON: a comma goes before a member */
	unsigned int shown[ROW_COLUMNS_MAX], shown_count;
	size_t column;			/* text: that was put last */
	size_t widths[ROW_COLUMNS_MAX]; /* of a table's columns; 0: it has no value yet */
	struct text cells;		/* rows whose widths are not known yet */
	size_t *ends, end_room;		/* of the cells */
	struct out *cell;
};

/* `out` must outlive it. Followed by rows_end(). */
void rows_begin(struct rows *rows, struct out *out, enum rows_format format);

/* Flushes `out`. 0 or a negative error. */
int rows_end(struct rows *rows);

/* One row of a table, as a record. */
void rows_record(struct rows *rows, const struct row_table *table, const struct row_value *row);

/* A table, row by row; layout NULL: all 0. What `layout` points to must live until rows_close(). */
void rows_open(struct rows *rows, const struct row_table *table, const struct rows_layout *layout);
void rows_put(struct rows *rows, const struct row_value *row);
void rows_close(struct rows *rows);

/* There are so many more rows, which are not put: text says so. */
void rows_skip(struct rows *rows, uint64_t count);

/* A row of a table, whose columns are an array in sight. */
#define ROWS_PUT(rows, columns, ...)                                                               \
	do {                                                                                       \
		const struct row_value row_[] = { __VA_ARGS__ };                                   \
		_Static_assert(sizeof(row_) / sizeof(*row_) ==                                     \
				       sizeof(columns) / sizeof((columns)[0]),                     \
			       "a value for each column");                                         \
		rows_put(rows, row_);                                                              \
	} while (0)

/* A line of text, tamed for a terminal; nothing in other formats. */
void rows_note(struct rows *rows, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A column's key in JSON and CSV: its name with its unit. In text[], which is returned. */
#define ROWS_KEY_BYTES 64
const char *rows_key(const struct row_column *column, char text[ROWS_KEY_BYTES]);

/* "1.23 ms"; "1.5 KiB". In text[], which is returned. */
const char *rows_ns(double ns, char text[24]);
const char *rows_bytes(uint64_t bytes, char text[24]);

#endif
