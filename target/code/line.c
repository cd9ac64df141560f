/* SPDX-License-Identifier: MIT */
#include "target/code/line.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/dwarf.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct search {
	struct code_lines *lines;
	const struct code_file *file;
	const char *source;
	unsigned int line;
	uint64_t bias;
};

static int add(struct code_lines *lines, uint64_t address, const char *source)
{
	if (array_grow(&lines->all, &lines->room, lines->count + 1, sizeof(*lines->all)))
		return -ENOMEM;
	lines->all[lines->count++] = (struct code_line){ .address = address, .source = source };
	return 0;
}

/* Take one row. *inside: whether the row before was of the line too. */
static int row_take(struct search *search, Dwarf_Line *row, bool *inside)
{
	const char *source = dwarf_linesrc(row, NULL, NULL);
	bool is_statement = false, is_end = false, was_inside = *inside;
	Dwarf_Addr address;
	int number = 0;

	dwarf_lineendsequence(row, &is_end);
	dwarf_linebeginstatement(row, &is_statement);
	if (is_end)
		*inside = false;
	if (is_end || !is_statement || dwarf_lineno(row, &number) || dwarf_lineaddr(row, &address))
		return 0;
	*inside = false;
	/* Line 0 is what the compiler knows no line for. */
	if (!source || number <= 0 || !code_dwarf_source_is(source, search->source))
		return 0;
	search->lines->has_source = 1;
	if ((unsigned int)number > search->line &&
	    (!search->lines->after || (unsigned int)number < search->lines->after))
		search->lines->after = (unsigned int)number;
	if ((unsigned int)number != search->line)
		return 0;
	*inside = true;
	address += search->bias;
	/* The linker leaves the rows of what it dropped, at address 0 and thereabouts. */
	if (was_inside || !code_file_is_text(search->file, address, 1))
		return 0;
	return add(search->lines, address, source);
}

static int unit_search(struct search *search, Dwarf_Die *unit)
{
	bool inside = false;
	Dwarf_Lines *rows;
	size_t count;
	int err = 0;

	if (dwarf_getsrclines(unit, &rows, &count))
		return 0;
	for (size_t i = 0; !err && i < count; i++) {
		Dwarf_Line *row = dwarf_onesrcline(rows, i);

		if (row)
			err = row_take(search, row, &inside);
	}
	return err;
}

static void drop_doubles(struct code_lines *lines)
{
	size_t kept = 0;

	sorted_make(lines->all, lines->count, sizeof(*lines->all));
	for (size_t i = 0; i < lines->count; i++)
		if (!kept || lines->all[kept - 1].address != lines->all[i].address)
			lines->all[kept++] = lines->all[i];
	lines->count = kept;
}

int code_lines_find(struct code_lines *lines, struct code_file *file, const char *source,
		    unsigned int line)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	struct search search = { .lines = lines, .file = file, .source = source, .line = line };
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	int err = 0;

	*lines = (struct code_lines){ 0 };
	if (!dwarf)
		return 0;
	search.bias = (uint64_t)dwarf->bias;
	while (!err && !dwarf_get_units(dwarf->dwarf, unit, &unit, NULL, NULL, &die, NULL))
		if (dwarf_tag(&die) == DW_TAG_compile_unit)
			err = unit_search(&search, &die);
	drop_doubles(lines);
	return err;
}

void code_lines_release(struct code_lines *lines)
{
	free(lines->all);
	*lines = (struct code_lines){ 0 };
}
