/* SPDX-License-Identifier: MIT */
/* A module's file: its rows, its conditional jumps, its functions. */
#include "read/history/lines_own.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/block.h"
#include "target/code/dwarf.h"
#include "target/code/rows.h"
#include "target/expression/scope.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KNOWN_SOURCES 64u /* by pointer; a power of two */

/* Texts that came lately: each unit has its own of a source's name, and many rows. */
struct known {
	const char *text;
	uint32_t source;
};

const struct own_row *lines_own_row_at(const struct own_module *module, uint64_t address)
{
	size_t at_most = sorted_at_most(module->rows, module->row_count, sizeof(*module->rows),
					offsetof(struct own_row, address), address);

	return at_most && module->rows[at_most - 1].line != LINE_NONE ? &module->rows[at_most - 1]
								      : NULL;
}

static int row_take(struct lines *lines, struct own_module *module, const struct code_row *row,
		    struct known *known)
{
	struct own_row own = { row->address, LINE_NONE, row->is_statement };
	struct known *slot = &known[(uintptr_t)row->source >> 4 & (KNOWN_SOURCES - 1)];
	int err = 0;

	if (row->source && slot->text != row->source) {
		err = lines_source_intern(lines, row->source, &slot->source);
		slot->text = err ? NULL : row->source;
	}
	if (row->source && !err) {
		struct own_source *source = &lines->sources[slot->source];

		err = line_intern(lines, slot->source, row->line, &own.line);
		if (source->built_s < module->built_s)
			source->built_s = module->built_s;
		source->is_optimized |= row->is_optimized;
	}
	if (err || array_grow(&module->rows, &module->row_room, module->row_count + 1,
			      sizeof(*module->rows)))
		return -ENOMEM;
	module->rows[module->row_count++] = own;
	return 0;
}

static int rows_load(struct lines *lines, struct own_module *module, struct code_file *file)
{
	struct known known[KNOWN_SOURCES] = { { 0 } };
	struct code_rows rows;
	int err = code_rows_read(&rows, file);

	for (size_t i = 0; !err && i < rows.count; i++)
		err = row_take(lines, module, &rows.all[i], known);
	code_rows_release(&rows);
	module->seen.row_count = module->row_count;
	return err == -EFBIG ? 0 : err;
}

/* ---- conditional jumps ---- */

static int branch_add(struct own_module *module, uint64_t address, uint32_t line)
{
	if (array_grow(&module->branches, &module->branch_room, module->branch_count + 1,
		       sizeof(*module->branches)))
		return -ENOMEM;
	module->branches[module->branch_count++] = (struct own_branch){ address, line };
	return 0;
}

/*
 * Those in the code of one row. A row begins where an instruction does, so what can't be read costs
 * one row.
 */
static int row_branches(struct own_module *module, const struct own_row *row, uint64_t end,
			const uint8_t *code)
{
	struct block_insn insn;

	for (uint64_t at = row->address; at < end; at += insn.bytes) {
		if (block_insn(&insn, at, code + (at - row->address), end - at))
			break;
		if (insn.kind == TRAIL_BRANCH && branch_add(module, at, row->line))
			return -ENOMEM;
	}
	return 0;
}

static int branches_load(struct own_module *module, struct code_file *file)
{
	const struct code_section *section = NULL;
	const void *content = NULL;
	size_t bytes = 0;
	int err = 0;

	for (size_t i = 0; !err && i + 1 < module->row_count; i++) {
		const struct own_row *row = &module->rows[i];
		uint64_t end = row[1].address, at = row->address;

		if (row->line == LINE_NONE || end == at)
			continue;
		if (!section || at < section->address || at - section->address >= bytes) {
			section = code_file_section_at(file, at);
			if (!section || code_file_content(file, section, &content, &bytes)) {
				section = NULL;
				continue;
			}
		}
		if (at - section->address >= bytes)
			continue;
		if (end - section->address > bytes)
			end = section->address + bytes;
		err = row_branches(module, row, end,
				   (const uint8_t *)content + (at - section->address));
	}
	return err;
}

/* ---- functions ---- */

/* foo.isra.0 is foo, as the source has it. Of foo.part.0 the other part is foo, which calls it. */
static size_t name_bytes(const char *name)
{
	static const char *const marks[] = { ".isra.", ".constprop.", ".lto_priv.", ".llvm." };
	size_t bytes = strlen(name);

	if (strstr(name, ".part.") || strstr(name, ".cold"))
		return 0;
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		const char *mark = strstr(name, marks[i]);

		if (mark && (size_t)(mark - name) < bytes)
			bytes = (size_t)(mark - name);
	}
	return bytes;
}

/* GCC says where the class of a lambda is declared, and not its operator(). */
static void declaration_find(Dwarf_Die *die, struct code_declared *declared)
{
	struct scope scope;
	Dwarf_Die origin;

	code_dwarf_declared(die, declared);
	if (!declared->line && scope_origin(die, &origin) && !scope_of(&origin, &scope) &&
	    scope.level > 1)
		code_dwarf_declared(&scope.levels[scope.level - 1], declared);
}

/*
 * Where the source declares a function: its first row may be code of an inlined one, in a header.
 * Without a description, its first row's. 0, -ENOENT, -ENOMEM.
 */
static int declared_at(struct lines *lines, const struct own_module *module, struct code_file *file,
		       const char *name, struct own_function *function)
{
	const struct own_row *row = lines_own_row_at(module, function->address);
	struct code_declared declared;
	char path[PATH_MAX];
	Dwarf_Die die;

	if (!code_dwarf_function(file, function->address, name, &die)) {
		declaration_find(&die, &declared);
		if (!declared.folder)
			declared.folder = code_dwarf_folder(file, declared.unit);
		if (declared.folder && code_dwarf_is_apart(declared.source, declared.folder))
			snprintf(path, sizeof(path), "%s/%s", declared.folder, declared.source);
		else
			snprintf(path, sizeof(path), "%s", declared.source);
		function->line = declared.line;
		if (declared.line && *declared.source)
			return lines_source_intern(lines, path, &function->source);
	}
	if (!row)
		return -ENOENT;
	function->source = lines->lines[row->line].source;
	function->line = lines->lines[row->line].number;
	return 0;
}

static int functions_load(struct lines *lines, struct own_module *module, struct code_file *file,
			  const struct code_symbols *symbols)
{
	for (size_t i = 0; i < symbols->function_count; i++) {
		const struct code_function *from = &symbols->functions[i];
		const char *name = symbols->all[from->first].name;
		struct own_function function = { .address = from->address };
		size_t bytes = name_bytes(name);
		int err;

		if (from->is_part || !bytes)
			continue;
		err = declared_at(lines, module, file, name, &function);
		if (err == -ENOENT)
			continue;
		if (err || array_grow(&module->functions, &module->function_room,
				      module->function_count + 1, sizeof(*module->functions)))
			return -ENOMEM;
		function.name = strndup(name, bytes);
		if (!function.name)
			return -ENOMEM;
		module->functions[module->function_count++] = function;
	}
	return 0;
}

struct marking {
	struct lines *lines;
	const struct own_module *module;
};

static int function_mark(const struct code_function *function, const struct code_symbol *symbol,
			 void *data)
{
	struct marking *marking = data;
	const struct own_module *module = marking->module;
	uint64_t end = function->address + (function->bytes ? function->bytes : 1);
	size_t i = sorted_at_most(module->rows, module->row_count, sizeof(*module->rows),
				  offsetof(struct own_row, address), function->address);

	(void)symbol;
	for (i -= i > 0; i < module->row_count && module->rows[i].address < end; i++)
		if (module->rows[i].line != LINE_NONE)
			marking->lines->lines[module->rows[i].line].is_wanted = 1;
	return 0;
}

/* ---- all of it ---- */

static int64_t written_s(const struct code_file *file)
{
	struct stat stat;

	return file->fd >= 0 && !fstat(file->fd, &stat) ? stat.st_mtime : 0;
}

int lines_load_module(struct lines *lines, struct own_module *module, struct image_module *from)
{
	struct marking marking = { lines, module };
	int err;

	module->built_s = written_s(from->file);
	err = rows_load(lines, module, from->file);
	if (!err && lines->options.all_branches)
		err = branches_load(module, from->file);
	if (!err)
		err = functions_load(lines, module, from->file, from->symbols);
	if (!err && lines->options.function)
		code_symbols_match(from->symbols, lines->options.function, function_mark, &marking);
	return err;
}
