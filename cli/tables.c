/* SPDX-License-Identifier: MIT */
/* All tables: `waymark help --tables` prints the part TABLES of waymark-tables(7). */
#include "cli/cli.h"
#include "read/rows/render.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bounds of the section that ROW_TABLE() writes, by the linker. */
extern const struct row_table *const __start_row_tables[], *const __stop_row_tables[];

static const char *type_words(const struct row_column *column)
{
	static const char *const units[] = {
		[ROW_COUNT] = "count",
		[ROW_NS] = "nanoseconds",
		[ROW_TIME] = "time, ns since 1970",
		[ROW_SINCE] = "ns since the begin",
		[ROW_BYTES] = "bytes",
		[ROW_SHARE] = "percent",
	};
	static const char *const types[] = {
		[ROW_BOOL] = "true or false", [ROW_U64] = "number",	 [ROW_S64] = "number",
		[ROW_DOUBLE] = "number",      [ROW_ADDRESS] = "address", [ROW_TEXT] = "text",
	};

	return column->unit ? units[column->unit] : types[column->type];
}

static int by_name(const void *one, const void *other)
{
	const struct row_table *const *a = one, *const *b = other;

	return strcmp((*a)->name, (*b)->name);
}

int tables_print(void)
{
	size_t count = (size_t)(__stop_row_tables - __start_row_tables);
	const struct row_table **tables = calloc(count, sizeof(*tables));

	if (!tables)
		return complain(-ENOMEM, NULL);
	memcpy(tables, __start_row_tables, count * sizeof(*tables));
	qsort(tables, count, sizeof(*tables), by_name);
	printf("# TABLES\n");
	for (size_t i = 0; i < count; i++) {
		printf("\n## %s\n\n%s\n\n| column | type | what it is |\n|:--|:--|:--|\n",
		       tables[i]->name, tables[i]->meaning);
		for (unsigned int j = 0; j < tables[i]->count; j++) {
			const struct row_column *column = &tables[i]->columns[j];
			char key[ROWS_KEY_BYTES];

			printf("| %s | %s | %s%s |\n", rows_key(column, key), type_words(column),
			       column->meaning,
			       column->flags & ROW_FOR_TEXT ? " (in text alone)" : "");
		}
	}
	printf("\n");
	free(tables);
	return CLI_FINE;
}
