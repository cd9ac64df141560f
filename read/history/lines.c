/* SPDX-License-Identifier: MIT */
#include "read/history/lines.h"

#include "base/array.h"
#include "base/name_match.h"
#include "base/slots.h"
#include "base/sorted.h"
#include "read/history/insns.h"
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

#define LINE_NONE UINT32_MAX

/* As struct code_row, with the line's index in place of its names. */
struct own_row {
	uint64_t address;
	uint32_t line; /* LINE_NONE: none */
	uint32_t is_statement;
};

struct own_branch {
	uint64_t address;
	uint32_t line;
};

/* The line is where the source declares it, which need not have code. */
struct own_function {
	char *name;
	uint64_t address;
	uint32_t source, line;
};

struct own_module {
	struct lines_module seen;
	char *path, *build_id; /* the latter may be NULL */
	struct insns insns;
	struct own_row *rows; /* by address; of several at one, the last has the code */
	size_t row_count, row_room;
	struct own_branch *branches; /* by address: all that the file has */
	size_t branch_count, branch_room;
	struct own_function *functions;
	size_t function_count, function_room;
	int64_t built_s;
};

struct own_line {
	uint32_t source, number;
	uint8_t is_wanted, has_statement;
	uint64_t ran, mixed; /* by statements; by code that is mixed into other lines' */
	uint64_t instructions;
};

struct own_source {
	char *path;
	int64_t built_s;
	uint8_t is_optimized;
};

struct lines {
	struct lines_options options;
	struct own_module *modules;
	size_t module_count, module_room;
	struct own_source *sources;
	size_t source_count, source_room;
	struct own_line *lines;
	size_t line_count, line_room;
	struct slots source_slots, line_slots;
	uint64_t instructions;
	/* once settled */
	struct lines_source *seen;
	size_t seen_count;
	struct lines_line *seen_lines;
	struct lines_branch *seen_branches;
	struct lines_function *seen_functions;
};

/* Sources and lines, each once. */

/*
 * A path that the compiler got may include the folder that it worked in: /shop/build/../order.c.
 * Like lcov, take that out by the words alone.
 */
static void path_tidy(char *path)
{
	char *root = path + (*path == '/'), *to = root, *floor = root;
	const char *from = root;
	int more = *from != '\0';

	while (more) {
		size_t bytes = strcspn(from, "/");
		int is_up = bytes == 2 && !memcmp(from, "..", 2);
		int is_here = !bytes || (bytes == 1 && *from == '.');

		more = from[bytes] == '/';
		if (is_up && to > floor) {
			for (to--; to > floor && to[-1] != '/'; to--)
				;
		} else if (!is_here && !(is_up && root != path)) {
			memmove(to, from, bytes);
			to += bytes;
			*to++ = '/';
			if (is_up)
				floor = to;
		}
		from += bytes + (size_t)more;
	}
	if (to > root)
		to--;
	*to = '\0';
}

static int lines_source_intern(struct lines *lines, const char *path, uint32_t *index)
{
	char tidy[PATH_MAX];
	uint32_t hash;
	size_t bytes;

	/* what is cut is longer than a file's name can be */
	bytes = strnlen(path, sizeof(tidy) - 2);
	memcpy(tidy, path, bytes);
	tidy[bytes] = '\0';
	path_tidy(tidy);
	hash = slots_hash_text(tidy);
	if (slots_fit(&lines->source_slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&lines->source_slots, hash, &at, index);)
		if (!strcmp(lines->sources[*index].path, tidy))
			return 0;
	if (array_grow(&lines->sources, &lines->source_room, lines->source_count + 1,
		       sizeof(*lines->sources)))
		return -ENOMEM;
	*index = (uint32_t)lines->source_count;
	lines->sources[*index] = (struct own_source){ .path = strdup(tidy) };
	if (!lines->sources[*index].path)
		return -ENOMEM;
	lines->source_count++;
	slots_add(&lines->source_slots, hash, *index);
	return 0;
}

/* The index of a line, made where it is new. 0 or -ENOMEM. */
static int line_intern(struct lines *lines, uint32_t source, uint32_t number, uint32_t *index)
{
	uint32_t hash = slots_hash((uint64_t)source << 32 | number);

	if (slots_fit(&lines->line_slots))
		return -ENOMEM;
	for (uint64_t at = hash; slots_next(&lines->line_slots, hash, &at, index);)
		if (lines->lines[*index].source == source && lines->lines[*index].number == number)
			return 0;
	if (array_grow(&lines->lines, &lines->line_room, lines->line_count + 1,
		       sizeof(*lines->lines)))
		return -ENOMEM;
	*index = (uint32_t)lines->line_count;
	lines->lines[*index] = (struct own_line){ .source = source, .number = number };
	lines->line_count++;
	slots_add(&lines->line_slots, hash, *index);
	return 0;
}

/* A module's file: its rows, its conditional jumps, its functions. */

#define KNOWN_SOURCES 64u /* by pointer; a power of two */

/* Texts that came lately: each unit has its own of a source's name, and many rows. */
struct known {
	const char *text;
	uint32_t source;
};

/* The row of the code at an address, or NULL. */
static const struct own_row *lines_own_row_at(const struct own_module *module, uint64_t address)
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

/* Read a module file's lines, branches and functions. 0 or -ENOMEM. */
static int lines_load_module(struct lines *lines, struct own_module *module,
			     struct image_module *from)
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

/*
 * From a module's instructions to its lines: see the head of read/history/lines.h.
 *
 * What ran is cut into stretches, which control enters at the first instruction only. A line with
 * code in a stretch is there once. Where one stretch ends in a line and leads to another that
 * begins in it, the two are of one copy.
 */

/* A line in a stretch. */
struct piece {
	uint32_t line;
	uint32_t copy; /* another piece of the same copy, or itself */
	uint64_t ran;
	int is_statement;
};

struct stretch {
	size_t first, end;	   /* instructions */
	size_t begins_in, ends_in; /* pieces; SIZE_MAX: no line */
};

struct counting {
	struct lines *lines;
	struct own_module *module;
	struct piece *pieces;
	size_t piece_count, piece_room;
	struct stretch *stretches;
	size_t stretch_count, stretch_room;
	uint32_t *stretch_of; /* by instruction */
	uint8_t *is_led_to;   /* by instruction: a jump goes there */
	uint32_t *last_of;    /* by line: its last piece + 1; 0: none yet */
	size_t row;	      /* the first one behind the instruction's address */
};

static int goes_on(const struct insn *insn)
{
	switch (insn->kind) {
	case TRAIL_JUMP:
	case TRAIL_JUMP_INDIRECT:
	case TRAIL_RETURN:
	case TRAIL_STOP:
	case TRAIL_FAR:
		return 0;
	case TRAIL_BRANCH:
		return insn->fell != 0;
	default:
		return 1;
	}
}

static int leads(const struct insn *insn)
{
	return insn->kind == TRAIL_JUMP || (insn->kind == TRAIL_BRANCH && insn->taken);
}

static void targets_mark(struct counting *counting)
{
	const struct insns *insns = &counting->module->insns;

	for (size_t i = 0; i < insns->count; i++) {
		size_t to;

		if (!leads(&insns->all[i]))
			continue;
		to = insns_below(insns, insns->all[i].target);
		if (to < insns->count && insns->all[to].address == insns->all[i].target)
			counting->is_led_to[to] = 1;
	}
}

static int is_next(const struct insn *before, const struct insn *insn)
{
	return before->address + before->bytes == insn->address;
}

/* More can run here than ran before only where something else leads here. */
static int begins(const struct counting *counting, size_t i)
{
	const struct insn *insn = &counting->module->insns.all[i];

	return !i || counting->is_led_to[i] || !is_next(insn - 1, insn) || !goes_on(insn - 1) ||
	       insn[-1].kind == TRAIL_BRANCH || insn->ran > insn[-1].ran;
}

/* The line's piece in the stretch at hand; SIZE_MAX: no memory. */
static size_t piece_of(struct counting *counting, size_t first, uint32_t line, uint64_t ran,
		       int is_statement)
{
	struct piece *piece;
	size_t i = counting->last_of[line];

	if (i <= first) {
		if (counting->piece_count == UINT32_MAX ||
		    array_grow(&counting->pieces, &counting->piece_room, counting->piece_count + 1,
			       sizeof(*counting->pieces)))
			return SIZE_MAX;
		i = ++counting->piece_count;
		counting->pieces[i - 1] = (struct piece){ .line = line, .copy = (uint32_t)(i - 1) };
		counting->last_of[line] = (uint32_t)i;
	}
	piece = &counting->pieces[i - 1];
	if (piece->ran < ran)
		piece->ran = ran;
	piece->is_statement |= is_statement;
	return i - 1;
}

/*
 * Take in one instruction of a stretch whose pieces begin at `first`; *piece is that of its line.
 */
static int insn_take(struct counting *counting, const struct insn *insn, size_t first,
		     size_t *piece)
{
	const struct own_row *rows = counting->module->rows, *row;
	struct own_line *line;

	*piece = SIZE_MAX;
	while (counting->row < counting->module->row_count &&
	       rows[counting->row].address <= insn->address) {
		row = &rows[counting->row++];
		/* a statement without code, where this one begins */
		if (row->address == insn->address && row->line != LINE_NONE && row->is_statement &&
		    piece_of(counting, first, row->line, insn->ran, 1) == SIZE_MAX)
			return -ENOMEM;
	}
	row = counting->row ? &rows[counting->row - 1] : NULL;
	if (!row || row->line == LINE_NONE)
		return 0;
	line = &counting->lines->lines[row->line];
	line->instructions += insn->ran;
	*piece = piece_of(counting, first, row->line, insn->ran, (int)row->is_statement);
	return *piece == SIZE_MAX ? -ENOMEM : 0;
}

static int stretch_take(struct counting *counting, size_t from, size_t *end)
{
	const struct insns *insns = &counting->module->insns;
	size_t first = counting->piece_count, piece, i = from;
	struct stretch *stretch;

	if (counting->stretch_count == UINT32_MAX ||
	    array_grow(&counting->stretches, &counting->stretch_room, counting->stretch_count + 1,
		       sizeof(*counting->stretches)))
		return -ENOMEM;
	stretch = &counting->stretches[counting->stretch_count++];
	*stretch = (struct stretch){ from, from, SIZE_MAX, SIZE_MAX };
	do {
		if (insn_take(counting, &insns->all[i], first, &piece))
			return -ENOMEM;
		if (i == from)
			stretch->begins_in = piece;
		stretch->ends_in = piece;
		counting->stretch_of[i++] = (uint32_t)counting->stretch_count - 1;
	} while (i < insns->count && !begins(counting, i));
	stretch->end = *end = i;
	return 0;
}

/* ---- copies ---- */

static uint32_t copy_of(struct piece *pieces, size_t piece)
{
	uint32_t at = (uint32_t)piece;

	while (pieces[at].copy != at)
		at = pieces[at].copy = pieces[pieces[at].copy].copy;
	return at;
}

static void join(struct counting *counting, const struct stretch *from, size_t to_insn)
{
	const struct stretch *to;
	struct piece *pieces = counting->pieces;

	if (from->ends_in == SIZE_MAX || to_insn >= counting->module->insns.count)
		return;
	to = &counting->stretches[counting->stretch_of[to_insn]];
	if (to->first == to_insn && to->begins_in != SIZE_MAX &&
	    pieces[from->ends_in].line == pieces[to->begins_in].line)
		pieces[copy_of(pieces, from->ends_in)].copy = copy_of(pieces, to->begins_in);
}

static void copies_join(struct counting *counting)
{
	const struct insns *insns = &counting->module->insns;

	for (size_t i = 0; i < counting->stretch_count; i++) {
		const struct stretch *stretch = &counting->stretches[i];
		const struct insn *last = &insns->all[stretch->end - 1];
		size_t to;

		if (stretch->end < insns->count && goes_on(last) && is_next(last, last + 1))
			join(counting, stretch, stretch->end);
		if (!leads(last))
			continue;
		to = insns_below(insns, last->target);
		if (to < insns->count && insns->all[to].address == last->target)
			join(counting, stretch, to);
	}
}

/*
 * What ran most is each copy's. Where a statement is in it, all of it is: some compilers mark only
 * its first piece.
 */
static void copies_sum(struct counting *counting)
{
	struct piece *pieces = counting->pieces;

	for (size_t i = 0; i < counting->piece_count; i++) {
		struct piece *copy = &pieces[copy_of(pieces, i)];

		copy->is_statement |= pieces[i].is_statement;
		if (copy->ran < pieces[i].ran)
			copy->ran = pieces[i].ran;
	}
	for (size_t i = 0; i < counting->piece_count; i++) {
		struct own_line *line = &counting->lines->lines[pieces[i].line];

		if (pieces[i].copy != i)
			continue;
		*(pieces[i].is_statement ? &line->ran : &line->mixed) += pieces[i].ran;
		line->has_statement |= (uint8_t)pieces[i].is_statement;
	}
}

/* Count the lines of a module whose instructions are settled. 0 or -ENOMEM. */
static int lines_count_module(struct lines *lines, struct own_module *module)
{
	struct counting counting = { .lines = lines, .module = module };
	size_t count = module->insns.count, at = 0;
	int err = 0;

	if (!count || !module->row_count)
		return 0;
	counting.stretch_of = calloc(count, sizeof(*counting.stretch_of));
	counting.is_led_to = calloc(count, 1);
	counting.last_of = calloc(lines->line_count + 1, sizeof(*counting.last_of));
	if (!counting.stretch_of || !counting.is_led_to || !counting.last_of)
		err = -ENOMEM;
	if (!err)
		targets_mark(&counting);
	while (!err && at < count)
		err = stretch_take(&counting, at, &at);
	if (!err) {
		copies_join(&counting);
		copies_sum(&counting);
	}
	free(counting.pieces);
	free(counting.stretches);
	free(counting.stretch_of);
	free(counting.is_led_to);
	free(counting.last_of);
	return err;
}
int lines_open(struct lines **out, const struct lines_options *options)
{
	struct lines *lines = *out = calloc(1, sizeof(*lines));

	if (!lines)
		return -ENOMEM;
	if (options)
		lines->options = *options;
	return 0;
}

static void module_release(struct own_module *module)
{
	for (size_t i = 0; i < module->function_count; i++)
		free(module->functions[i].name);
	free(module->functions);
	free(module->branches);
	free(module->rows);
	insns_release(&module->insns);
	free(module->path);
	free(module->build_id);
}

void lines_close(struct lines *lines)
{
	if (!lines)
		return;
	for (size_t i = 0; i < lines->module_count; i++)
		module_release(&lines->modules[i]);
	for (size_t i = 0; i < lines->source_count; i++)
		free(lines->sources[i].path);
	free(lines->modules);
	free(lines->sources);
	free(lines->lines);
	free(lines->source_slots.all);
	free(lines->line_slots.all);
	free(lines->seen);
	free(lines->seen_lines);
	free(lines->seen_branches);
	free(lines->seen_functions);
	free(lines);
}

/* ---- taking in ---- */

static int is_same(const char *one, const char *other)
{
	return !one || !other ? one == other : !strcmp(one, other);
}

static int module_of(struct lines *lines, struct image_module *from, size_t *index)
{
	struct own_module *module;

	for (*index = 0; *index < lines->module_count; ++*index)
		if (is_same(lines->modules[*index].path, from->path) &&
		    is_same(lines->modules[*index].build_id, from->build_id))
			return 0;
	if (array_grow(&lines->modules, &lines->module_room, lines->module_count + 1,
		       sizeof(*lines->modules)))
		return -ENOMEM;
	module = &lines->modules[lines->module_count];
	*module = (struct own_module){ .path = strdup(from->path) };
	if (from->build_id)
		module->build_id = strdup(from->build_id);
	if (!module->path || (from->build_id && !module->build_id)) {
		free(module->path);
		free(module->build_id);
		return -ENOMEM;
	}
	lines->module_count++;
	module->seen.path = module->path;
	module->seen.error = from->error;
	return from->file ? lines_load_module(lines, module, from) : 0;
}

/* Where the blocks at hand are: most follow others of their module. */
struct taking {
	struct lines *lines;
	struct image *image;
	struct image_module *from; /* NULL: not known yet, or none */
	int is_asked_for;
	size_t module;
};

static int is_asked_for(const struct lines *lines, const struct image_module *module)
{
	const char *glob = lines->options.module;

	return !glob || name_match_module(glob, module->path);
}

/* The module of a block: 0, -ENOENT if no module there could be read, -ENOMEM. */
static int module_at(struct taking *taking, uint64_t address)
{
	const struct image_place *place;

	if (!taking->from || address < taking->from->start || address >= taking->from->end) {
		place = image_place(taking->image, address);
		taking->from = place ? place->module : NULL;
		taking->is_asked_for = taking->from && is_asked_for(taking->lines, taking->from);
		if (!place || (taking->is_asked_for &&
			       module_of(taking->lines, taking->from, &taking->module)))
			return -ENOMEM;
	}
	return taking->is_asked_for && taking->from->file ? 0 : -ENOENT;
}

static int block_take(struct taking *taking, const struct ran_table *from, uint32_t id,
		      const struct ran_cut *cuts, size_t cut_count)
{
	const struct trail_block *block = &from->table->blocks[id];
	const uint8_t *code = trail_table_code(from->table, block);
	uint8_t read[TRAIL_BLOCK_BYTES_MAX];
	int err;

	taking->lines->instructions += from->counts[id].ran * block->instructions;
	for (size_t i = 0; i < cut_count; i++)
		taking->lines->instructions -= cuts[i].left;
	err = module_at(taking, block->start);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (code && !image_place(taking->image, block->start)) /* for image_check() */
		return -ENOMEM;
	if (!code && code_file_read(taking->from->file, block->start - taking->from->base, read,
				    block->bytes))
		return 0;
	err = insns_add(&taking->lines->modules[taking->module].insns, block, code ? code : read,
			taking->from->base, &from->counts[id], cuts, cut_count);
	return err == -ENOMEM ? err : 0;
}

static int by_id(const void *one, const void *other)
{
	const struct ran_cut *a = one, *b = other;

	return a->id < b->id ? -1 : a->id > b->id;
}

static int table_take(struct taking *taking, const struct ran_table *from)
{
	struct ran_cut *cuts = NULL;
	size_t cut = 0;
	int err = 0;

	/* another table's blocks may be of other modules at the same place */
	taking->from = NULL;
	taking->image = image_in(taking->image, from->table);
	if (!taking->image)
		return -ENOMEM;

	if (from->cut_count) {
		cuts = malloc(from->cut_count * sizeof(*cuts));
		if (!cuts)
			return -ENOMEM;
		memcpy(cuts, from->cuts, from->cut_count * sizeof(*cuts));
		qsort(cuts, from->cut_count, sizeof(*cuts), by_id);
	}
	for (uint32_t id = 0; !err && id < from->table->count; id++) {
		size_t first = cut;

		while (cut < from->cut_count && cuts[cut].id == id)
			cut++;
		if (from->counts[id].ran)
			err = block_take(taking, from, id, cuts + first, cut - first);
	}
	free(cuts);
	return err;
}

int lines_take(struct lines *lines, struct image *image, const struct ran *ran)
{
	struct taking taking = { .lines = lines, .image = image };
	int err = 0;

	for (size_t i = 0; !err && i < ran->count; i++)
		err = table_take(&taking, &ran->tables[i]);
	return err;
}

/* The counts, put in order: sources by path, lines by number, branches by address. */

/* A line on its way to its place. */
struct place {
	const struct own_line *line;
	const char *path;
	size_t branches, first_branch; /* how many, and the index of the first */
};

static int by_path_and_number(const void *one, const void *other)
{
	const struct place *a = one, *b = other;
	int order = a->line->source == b->line->source ? 0 : strcmp(a->path, b->path);

	if (order)
		return order;
	return a->line->number < b->line->number ? -1 : a->line->number > b->line->number;
}

/* ---- branches ---- */

struct branch_walk {
	const struct own_module *module;
	int is_all;
	size_t at, insn;
};

/* The next conditional jump of a module with its line, by address: 1, or 0 behind the last. */
static int branch_next(struct branch_walk *walk, uint32_t *line, struct lines_branch *branch)
{
	const struct own_module *module = walk->module;
	const struct insns *insns = &module->insns;
	const struct insn *insn;

	*branch = (struct lines_branch){ 0 };
	if (walk->is_all) {
		const struct own_branch *own = &module->branches[walk->at];

		if (walk->at++ == module->branch_count)
			return 0;
		*line = own->line;
		while (walk->insn < insns->count && insns->all[walk->insn].address < own->address)
			walk->insn++;
		insn = &insns->all[walk->insn];
		if (walk->insn == insns->count || insn->address != own->address)
			return 1;
	} else {
		const struct own_row *row = NULL;

		while (walk->at < insns->count && !row) {
			insn = &insns->all[walk->at++];
			if (insn->kind == TRAIL_BRANCH)
				row = lines_own_row_at(module, insn->address);
		}
		if (!row)
			return 0;
		*line = row->line;
	}
	*branch = (struct lines_branch){ insn->ran, insn->taken, insn->fell };
	return 1;
}

/* Count the branches of each line, or, once each line has its place, put them there. */
static size_t branches_walk(const struct lines *lines, size_t *by_line, struct lines_branch *to)
{
	struct lines_branch branch;
	size_t count = 0;
	uint32_t line = 0;

	for (size_t i = 0; i < lines->module_count; i++) {
		struct branch_walk walk = { .module = &lines->modules[i],
					    .is_all = lines->options.all_branches };

		for (; branch_next(&walk, &line, &branch); count++) {
			if (to)
				to[by_line[line]] = branch;
			by_line[line]++;
		}
	}
	return count;
}

/* ---- functions ---- */

struct called {
	const char *path;
	struct lines_function function;
};

static int by_place(const void *one, const void *other)
{
	const struct called *a = one, *b = other;
	int order = strcmp(a->path, b->path);

	if (!order && a->function.line != b->function.line)
		order = a->function.line < b->function.line ? -1 : 1;
	return order ? order : strcmp(a->function.name, b->function.name);
}

static uint64_t ran_at(const struct insns *insns, uint64_t address)
{
	size_t at = insns_below(insns, address);

	return at < insns->count && insns->all[at].address == address ? insns->all[at].ran : 0;
}

/* Functions by source and line; what has several copies is one. */
static int functions_gather(const struct lines *lines, struct called **out, size_t *out_count)
{
	size_t count = 0, kept = 0;
	struct called *all;

	for (size_t i = 0; i < lines->module_count; i++)
		count += lines->modules[i].function_count;
	all = *out = malloc((count + 1) * sizeof(*all));
	if (!all)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < lines->module_count; i++) {
		const struct own_module *module = &lines->modules[i];

		for (size_t j = 0; j < module->function_count; j++) {
			const struct own_function *from = &module->functions[j];

			all[count++] = (struct called){
				lines->sources[from->source].path,
				{ from->name, from->line, ran_at(&module->insns, from->address) },
			};
		}
	}
	if (count)
		qsort(all, count, sizeof(*all), by_place);
	for (size_t i = 0; i < count; i++) {
		if (kept && !by_place(&all[kept - 1], &all[i]))
			all[kept - 1].function.ran += all[i].function.ran;
		else
			all[kept++] = all[i];
	}
	*out_count = kept;
	return 0;
}

/* ---- all of it ---- */

static int by_source(const void *one, const void *other)
{
	const struct lines_source *a = one, *b = other;

	return strcmp(a->path, b->path);
}

/* Sources of functions whose own lines have no code left: all that runs there is inlined. */
static void show_bare_sources(struct lines *lines, const struct called *all, size_t count)
{
	size_t known = lines->seen_count;

	for (size_t i = 0; i < count; i++) {
		const struct lines_source key = { .path = all[i].path };

		if ((i && !strcmp(all[i].path, all[i - 1].path)) ||
		    (known && bsearch(&key, lines->seen, known, sizeof(key), by_source)))
			continue;
		lines->seen[lines->seen_count++] = key;
	}
	if (lines->seen_count > known)
		qsort(lines->seen, lines->seen_count, sizeof(*lines->seen), by_source);
}

static int show_functions(struct lines *lines)
{
	struct called *all = NULL;
	size_t count = 0, source = 0;

	if (functions_gather(lines, &all, &count))
		return -ENOMEM;
	show_bare_sources(lines, all, count);
	lines->seen_functions = malloc((count + 1) * sizeof(*lines->seen_functions));
	for (size_t i = 0; lines->seen_functions && i < count; i++) {
		lines->seen_functions[i] = all[i].function;
		while (strcmp(lines->seen[source].path, all[i].path) != 0)
			source++; /* both are by path, and it is among them */
		lines->seen[source].has_run |= all[i].function.ran > 0;
		if (!lines->seen[source].function_count++)
			lines->seen[source].functions = &lines->seen_functions[i];
	}
	free(all);
	return lines->seen_functions ? 0 : -ENOMEM;
}

static void show_line(struct lines *lines, size_t i, const struct place *place)
{
	const struct own_line *from = place->line;

	lines->seen_lines[i] = (struct lines_line){
		.number = from->number,
		.is_wanted = from->is_wanted || !lines->options.function,
		.ran = from->has_statement ? from->ran : from->mixed,
		.instructions = from->instructions,
		.branches = lines->seen_branches + place->first_branch,
		.branch_count = (uint32_t)place->branches,
	};
}

static void show_sources(struct lines *lines, const struct place *places)
{
	struct lines_source *source = NULL;
	size_t count = 0;

	for (size_t i = 0; i < lines->line_count; i++) {
		if (!i || places[i].line->source != places[i - 1].line->source) {
			source = &lines->seen[count++];
			*source = (struct lines_source){
				.path = places[i].path,
				.lines = &lines->seen_lines[i],
				.built_s = lines->sources[places[i].line->source].built_s,
				.is_optimized = lines->sources[places[i].line->source].is_optimized,
			};
		}
		source->line_count++;
		if (lines->seen_lines[i].instructions || lines->seen_lines[i].ran)
			source->has_run = 1;
	}
	lines->seen_count = count;
}

/* Make what others see. 0 or -ENOMEM. */
static int lines_show(struct lines *lines)
{
	size_t count = lines->line_count, branches, at = 0;
	struct place *places = calloc(count + 1, sizeof(*places));
	size_t *by_line = calloc(count + 1, sizeof(*by_line));
	int err = -ENOMEM;

	lines->seen = calloc(lines->source_count + 1, sizeof(*lines->seen));
	lines->seen_lines = calloc(count + 1, sizeof(*lines->seen_lines));
	if (!places || !by_line || !lines->seen || !lines->seen_lines)
		goto out;
	branches = branches_walk(lines, by_line, NULL);
	lines->seen_branches = calloc(branches + 1, sizeof(*lines->seen_branches));
	if (!lines->seen_branches)
		goto out;
	for (size_t i = 0; i < count; i++)
		places[i] = (struct place){ .line = &lines->lines[i],
					    .path = lines->sources[lines->lines[i].source].path,
					    .branches = by_line[i] };
	if (count)
		qsort(places, count, sizeof(*places), by_path_and_number);
	for (size_t i = 0; i < count; i++) {
		places[i].first_branch = at;
		by_line[places[i].line - lines->lines] = at;
		at += places[i].branches;
		show_line(lines, i, &places[i]);
	}
	branches_walk(lines, by_line, lines->seen_branches);
	show_sources(lines, places);
	err = show_functions(lines);
out:
	free(places);
	free(by_line);
	return err;
}

/* ---- settling ---- */

static int by_path(const void *one, const void *other)
{
	const struct own_module *a = one, *b = other;
	int order = strcmp(a->path, b->path);

	return order ? order
		     : strcmp(a->build_id ? a->build_id : "", b->build_id ? b->build_id : "");
}

int lines_settle(struct lines *lines)
{
	int err = 0;

	if (lines->module_count)
		qsort(lines->modules, lines->module_count, sizeof(*lines->modules), by_path);
	for (size_t i = 0; !err && i < lines->module_count; i++) {
		insns_settle(&lines->modules[i].insns);
		err = lines_count_module(lines, &lines->modules[i]);
	}
	return err ? err : lines_show(lines);
}

const struct lines_source *lines_source(const struct lines *lines, size_t index)
{
	return index < lines->seen_count ? &lines->seen[index] : NULL;
}

const struct lines_module *lines_module(const struct lines *lines, size_t index)
{
	return index < lines->module_count ? &lines->modules[index].seen : NULL;
}

uint64_t lines_instructions(const struct lines *lines)
{
	return lines->instructions;
}
