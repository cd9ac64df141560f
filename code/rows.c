/* SPDX-License-Identifier: MIT */
#include "code/rows.h"

#include "base/array.h"
#include "code/dwarf.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

static int row_add(struct code_rows *rows, Dwarf_Line *line, uint64_t bias,
		   const struct code_file *file)
{
	bool is_statement = false, is_end = false;
	Dwarf_Addr address;
	int number = 0;

	if (dwarf_lineaddr(line, &address) || dwarf_lineno(line, &number))
		return 0;
	dwarf_lineendsequence(line, &is_end);
	dwarf_linebeginstatement(line, &is_statement);
	address += bias;
	/* the linker leaves the rows of what it dropped, at address 0 and thereabouts */
	if (!is_end && !code_file_is_text(file, address, 1))
		return 0;
	if (array_grow(&rows->all, &rows->room, rows->count + 1, sizeof(*rows->all)))
		return -ENOMEM;
	rows->all[rows->count++] = (struct code_row){
		.address = address,
		.source = is_end || number <= 0 ? NULL : dwarf_linesrc(line, NULL, NULL),
		.line = number > 0 ? (uint32_t)number : 0,
		.is_statement = is_statement,
	};
	return 0;
}

static int unit_add(struct code_rows *rows, Dwarf_Die *unit, uint64_t bias,
		    const struct code_file *file)
{
	Dwarf_Lines *lines;
	size_t count;
	int err = 0;

	if (dwarf_getsrclines(unit, &lines, &count))
		return 0;
	for (size_t i = 0; !err && i < count; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);

		if (line)
			err = row_add(rows, line, bias, file);
	}
	return err;
}

/* At one address a sequence's end stands before another's begin, and of several rows the later one holds. */
static int by_address(const void *one, const void *other)
{
	const struct code_row *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (!a->source != !b->source)
		return a->source ? 1 : -1;
	return a->is_statement < b->is_statement ? -1 : a->is_statement > b->is_statement;
}

static void rows_sort(struct code_rows *rows)
{
	size_t kept = 0;

	if (rows->count)
		qsort(rows->all, rows->count, sizeof(*rows->all), by_address);
	for (size_t i = 0; i < rows->count; i++) {
		if (kept && rows->all[kept - 1].address == rows->all[i].address)
			kept--;
		rows->all[kept++] = rows->all[i];
	}
	rows->count = kept;
}

int code_rows_read(struct code_rows *rows, struct code_file *file)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	int err = 0;

	*rows = (struct code_rows){ 0 };
	if (!dwarf)
		return 0;
	while (!err && !dwarf_get_units(dwarf->dwarf, unit, &unit, NULL, NULL, &die, NULL))
		if (dwarf_tag(&die) == DW_TAG_compile_unit)
			err = unit_add(rows, &die, (uint64_t)dwarf->bias, file);
	rows_sort(rows);
	return err;
}

void code_rows_release(struct code_rows *rows)
{
	free(rows->all);
	*rows = (struct code_rows){ 0 };
}

const struct code_row *code_row_at(const struct code_rows *rows, uint64_t address)
{
	size_t low = 0, high = rows->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (rows->all[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && rows->all[low - 1].source ? &rows->all[low - 1] : NULL;
}
