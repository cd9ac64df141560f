/* SPDX-License-Identifier: MIT */
#include "target/code/line.h"

#include "base/array.h"
#include "target/code/dwarf.h"

#include <errno.h>
#include <stdlib.h>

/* Rows come by address. */
static int add(struct code_lines *lines, const struct code_row *row)
{
	if (lines->count && lines->all[lines->count - 1].address == row->address)
		return 0;
	if (array_grow(&lines->all, &lines->room, lines->count + 1, sizeof(*lines->all)))
		return -ENOMEM;
	lines->all[lines->count++] = (struct code_line){ row->address, row->source };
	return 0;
}

int code_lines_find(struct code_lines *lines, struct code_file *file, const char *source,
		    unsigned int line)
{
	int is_inside = 0, was_inside, err; /* whether the row before was of the line too */

	*lines = (struct code_lines){ 0 };
	err = code_rows_read(&lines->rows, file);
	for (size_t i = 0; !err && i < lines->rows.count; i++) {
		const struct code_row *row = &lines->rows.all[i];

		is_inside &= !row->is_end;
		if (row->is_end || !row->is_statement)
			continue;
		was_inside = is_inside;
		is_inside = 0;
		if (!row->source || !code_dwarf_source_is(row->source, source))
			continue;
		lines->has_source = 1;
		if (row->line > line && (!lines->after || row->line < lines->after))
			lines->after = row->line;
		is_inside = row->line == line;
		if (is_inside && !was_inside)
			err = add(lines, row);
	}
	return err;
}

void code_lines_release(struct code_lines *lines)
{
	free(lines->all);
	code_rows_release(&lines->rows);
	*lines = (struct code_lines){ 0 };
}
