/* SPDX-License-Identifier: MIT */
/*
 * The rows of a table in the order of one of its columns: numbers from the largest on, texts from A
 * on, and last what has no value.
 */
#ifndef READ_ROWS_ROWS_SORTED_H
#define READ_ROWS_ROWS_SORTED_H

#include "read/rows/render.h"

#include <stddef.h>

struct rows_sorted {
	const struct row_table *table;
	unsigned int column;
	size_t count;
	/* Fill a row. Its texts are valid until the next call. */
	void (*make)(void *data, size_t number, struct row_value *row);
	void *data;
};

/* A column's number, by its name or its key in JSON. -1: the table has none of that name. */
int rows_column(const struct row_table *table, const char *name);

/* Open the table, put its rows, close it. Errors stay in the `out`. */
void rows_put_sorted(struct rows *rows, const struct rows_sorted *sorted,
		     const struct rows_layout *layout);

/* Fill a row of a table, whose columns are an array in sight. */
#define ROWS_FILL(row, columns, ...)                                                               \
	do {                                                                                       \
		const struct row_value row_[] = { __VA_ARGS__ };                                   \
		_Static_assert(sizeof(row_) / sizeof(*row_) ==                                     \
				       sizeof(columns) / sizeof((columns)[0]),                     \
			       "a value for each column");                                         \
		memcpy(row, row_, sizeof(row_));                                                   \
	} while (0)

#endif
