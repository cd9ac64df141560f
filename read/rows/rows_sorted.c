/* SPDX-License-Identifier: MIT */
#include "read/rows/rows_sorted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What a row is sorted by. */
struct sort_key {
	struct row_value value; /* a text is its own copy */
	size_t number;		/* of the row */
};

int rows_column(const struct row_table *table, const char *name)
{
	char key[ROWS_KEY_BYTES];

	for (unsigned int i = 0; i < table->count; i++)
		if (!strcmp(table->columns[i].name, name) ||
		    !strcmp(rows_key(&table->columns[i], key), name))
			return (int)i;
	return -1;
}

/* Below 0: `a` comes first. */
static int value_order(const struct row_value *a, const struct row_value *b)
{
	if (a->type != b->type)
		return (a->type == ROW_NULL) - (b->type == ROW_NULL);
	switch (a->type) {
	case ROW_NULL:
		return 0;
	case ROW_TEXT:
		return strcmp(a->text, b->text);
	case ROW_DOUBLE:
		return (a->real < b->real) - (a->real > b->real);
	case ROW_S64:
		return (a->s64 < b->s64) - (a->s64 > b->s64);
	default:
		return (a->u64 < b->u64) - (a->u64 > b->u64);
	}
}

static int key_order(const void *left, const void *right)
{
	const struct sort_key *a = left, *b = right;
	int order = value_order(&a->value, &b->value);

	return order ? order : (a->number > b->number) - (a->number < b->number);
}

/* The keys of all rows, in order. NULL: no memory, and out->error has it. */
static struct sort_key *keys_make(struct rows *rows, const struct rows_sorted *sorted)
{
	struct sort_key *keys = calloc(sorted->count + 1, sizeof(*keys));
	struct row_value row[ROW_COLUMNS_MAX];

	for (size_t i = 0; keys && i < sorted->count; i++) {
		sorted->make(sorted->data, i, row);
		keys[i] = (struct sort_key){ row[sorted->column], i };
		if (keys[i].value.type != ROW_TEXT)
			continue;
		keys[i].value = row_text(strdup(keys[i].value.text));
		if (!keys[i].value.text)
			rows->out->error = -ENOMEM;
	}
	if (keys && sorted->count)
		qsort(keys, sorted->count, sizeof(*keys), key_order);
	if (!keys)
		rows->out->error = -ENOMEM;
	return keys;
}

void rows_put_sorted(struct rows *rows, const struct rows_sorted *sorted,
		     const struct rows_layout *layout)
{
	struct sort_key *keys = keys_make(rows, sorted);
	struct row_value row[ROW_COLUMNS_MAX];

	rows_open(rows, sorted->table, layout);
	for (size_t i = 0; keys && i < sorted->count; i++) {
		sorted->make(sorted->data, keys[i].number, row);
		rows_put(rows, row);
		if (keys[i].value.type == ROW_TEXT)
			free((char *)(uintptr_t)keys[i].value.text);
	}
	rows_close(rows);
	free(keys);
}
