/* SPDX-License-Identifier: MIT */
#include "target/code/rows.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/dwarf.h"
#include "target/code/dwarf_bytes.h"

#include <dwarf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A unit's line program (DWARF 5, 6.2), as in .debug_line. libdw sorts its rows by address, so the
 * rows of code that the linker dropped, and left at address 0, can't be separated any more.
 */

struct line_program_row {
	uint64_t address;
	uint64_t start; /* of the sequence's first row: a sequence's code is contiguous */
	uint32_t file;	/* of the unit's, as the program counts them */
	uint32_t line;
	uint8_t is_statement, is_end;
};

struct program {
	struct dwarf_bytes bytes;
	uint8_t min_instruction, default_is_statement, line_range, opcode_base;
	int8_t line_base;
	uint8_t lengths[256]; /* operands of opcodes below opcode_base */
	struct line_program_row row;
	int has_start;
	int (*take)(const struct line_program_row *row, void *data);
	void *data;
};

/* Read only what is needed to find and run the program; libdw reads the names. */
static int head_read(struct program *program)
{
	struct dwarf_bytes *bytes = &program->bytes;
	uint64_t length = dwarf_bytes_fixed(bytes, 4);
	size_t wide = length == UINT32_MAX ? 8 : 4;
	const uint8_t *begin;
	uint16_t version;

	if (wide == 8)
		length = dwarf_bytes_fixed(bytes, 8);
	if (bytes->is_over || length > (size_t)(bytes->end - bytes->at))
		return -EINVAL;
	bytes->end = bytes->at + length;
	version = (uint16_t)dwarf_bytes_fixed(bytes, 2);
	if (version < 2 || version > 5)
		return -EINVAL;
	if (version == 5)
		dwarf_bytes_fixed(bytes, 2); /* sizes of an address and a segment */
	length = dwarf_bytes_fixed(bytes, wide);
	if (bytes->is_over || length > (size_t)(bytes->end - bytes->at))
		return -EINVAL;
	begin = bytes->at + length;
	program->min_instruction = (uint8_t)dwarf_bytes_fixed(bytes, 1);
	if (version >= 4)
		dwarf_bytes_fixed(bytes, 1); /* operations an instruction: x86 has one */
	program->default_is_statement = (uint8_t)dwarf_bytes_fixed(bytes, 1);
	program->line_base = (int8_t)dwarf_bytes_fixed(bytes, 1);
	program->line_range = (uint8_t)dwarf_bytes_fixed(bytes, 1);
	program->opcode_base = (uint8_t)dwarf_bytes_fixed(bytes, 1);
	for (unsigned int i = 1; i < program->opcode_base; i++)
		program->lengths[i] = (uint8_t)dwarf_bytes_fixed(bytes, 1);
	if (bytes->is_over || !program->line_range || !program->opcode_base || bytes->at > begin)
		return -EINVAL;
	bytes->at = begin;
	return 0;
}

static void begin_sequence(struct program *program)
{
	program->row = (struct line_program_row){
		.file = 1, .line = 1, .is_statement = program->default_is_statement != 0
	};
	program->has_start = 0;
}

static int put_row(struct program *program)
{
	if (!program->has_start)
		program->row.start = program->row.address;
	program->has_start = 1;
	return program->take(&program->row, program->data);
}

static void advance(struct program *program, uint64_t by)
{
	program->row.address += by * program->min_instruction;
}

static int run_extended(struct program *program)
{
	uint64_t length = dwarf_bytes_uleb(&program->bytes);
	const uint8_t *end;
	int err = 0;

	if (!length || length > (size_t)(program->bytes.end - program->bytes.at))
		return -EINVAL;
	end = program->bytes.at + length;
	switch (dwarf_bytes_fixed(&program->bytes, 1)) {
	case DW_LNE_end_sequence:
		program->row.is_end = 1;
		err = put_row(program);
		begin_sequence(program);
		break;
	case DW_LNE_set_address:
		program->row.address = dwarf_bytes_fixed(&program->bytes,
							 length - 1 < 8 ? length - 1 : 8);
		break;
	default: /* discriminators, and what is not known, say how long they are */
		break;
	}
	program->bytes.at = end;
	return err;
}

static int run_standard(struct program *program, uint8_t opcode)
{
	struct dwarf_bytes *bytes = &program->bytes;

	switch (opcode) {
	case DW_LNS_copy:
		return put_row(program);
	case DW_LNS_advance_pc:
		advance(program, dwarf_bytes_uleb(bytes));
		break;
	case DW_LNS_advance_line:
		program->row.line += (uint32_t)dwarf_bytes_sleb(bytes);
		break;
	case DW_LNS_set_file:
		program->row.file = (uint32_t)dwarf_bytes_uleb(bytes);
		break;
	case DW_LNS_negate_stmt:
		program->row.is_statement = !program->row.is_statement;
		break;
	case DW_LNS_const_add_pc:
		advance(program, (255u - program->opcode_base) / program->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		program->row.address += dwarf_bytes_fixed(bytes, 2);
		break;
	default:
		for (unsigned int i = 0; i < program->lengths[opcode]; i++)
			dwarf_bytes_uleb(bytes);
	}
	return 0;
}

/*
 * Run the program at `offset` of the section, and call row() for each row in its order. What row()
 * returns other than 0 ends it. 0, -EINVAL for a program that can't be read on, after the rows
 * before that.
 */
static int line_program_run(const uint8_t *section, size_t bytes, uint64_t offset,
			    int (*row)(const struct line_program_row *row, void *data), void *data)
{
	struct program program = { .take = row, .data = data };
	int err;

	if (offset > bytes)
		return -EINVAL;
	program.bytes = (struct dwarf_bytes){ .at = section + offset, .end = section + bytes };
	err = head_read(&program);
	begin_sequence(&program);
	while (!err && program.bytes.at < program.bytes.end) {
		uint8_t opcode = (uint8_t)dwarf_bytes_fixed(&program.bytes, 1);

		if (opcode >= program.opcode_base) {
			opcode = (uint8_t)(opcode - program.opcode_base);
			advance(&program, opcode / program.line_range);
			program.row.line += (uint32_t)(program.line_base +
						       opcode % program.line_range);
			err = put_row(&program);
		} else {
			err = opcode ? run_standard(&program, opcode) : run_extended(&program);
		}
		if (program.bytes.is_over)
			err = -EINVAL;
	}
	return err;
}

/* A source's path put behind the folder that the compiler was in. */
struct code_row_source {
	struct code_row_source *next;
	const char *from; /* as the line table has it */
	char text[];
};

struct reading {
	struct code_rows *rows;
	const struct code_file *file;
	uint64_t bias;
	const Elf_Data *section;	/* .debug_line */
	Dwarf_Files *files;		/* of the unit at hand */
	const char *folder;		/* that its compiler was in; NULL: unknown */
	int is_optimized;		/* the unit's code */
	uint32_t from;			/* the file of the row before */
	const char *source;		/* and its path; NULL: not known yet */
	uint64_t start;			/* where the code of the row before begins */
	int is_there;			/* and whether it is in the module */
	struct code_row_source *before; /* the unit's sources are those before this one */
};

/*
 * Functions that the linker dropped are still described, at address 0 or thereabouts. By their
 * length alone their rows may reach into code that is there.
 */
static int is_there(const struct code_file *file, uint64_t start)
{
	const struct code_section *section = code_file_section_at(file, start);

	if (file->section_count && (!section || !(section->flags & SHF_EXECINSTR)))
		return 0;
	return code_file_is_text(file, start, 1);
}

/* The path of a row's source, from where the compiler says. NULL: no memory. */
static const char *source_of(struct reading *reading, const char *path)
{
	struct code_row_source *source = reading->rows->sources;

	if (!reading->folder || !code_dwarf_is_apart(path, reading->folder))
		return path;
	for (; source != reading->before; source = source->next)
		if (source->from == path)
			return source->text;
	source = malloc(sizeof(*source) + strlen(reading->folder) + strlen(path) + 2);
	if (!source)
		return NULL;
	sprintf(source->text, "%s/%s", reading->folder, path);
	source->from = path;
	source->next = reading->rows->sources;
	reading->rows->sources = source;
	return source->text;
}

/* -ENOMEM; where the line table lacks the name, there is no source. */
static int source_read(struct reading *reading, uint32_t file)
{
	const char *path;

	if (reading->source && reading->from == file)
		return 0;
	path = dwarf_filesrc(reading->files, file, NULL, NULL);
	reading->from = file;
	reading->source = path ? source_of(reading, path) : NULL;
	return path && !reading->source ? -ENOMEM : 0;
}

static int row_add(const struct line_program_row *row, void *data)
{
	struct reading *reading = data;
	struct code_rows *rows = reading->rows;
	uint64_t address = row->address + reading->bias, start = row->start + reading->bias;

	if (start != reading->start) {
		reading->start = start;
		reading->is_there = is_there(reading->file, start);
	}
	if (!reading->is_there || !code_file_is_text(reading->file, address - row->is_end, 1))
		return 0;
	if (rows->count == CODE_ROWS_MAX)
		return -EFBIG;
	/* a row at the end of the code has no code, and would cover what follows */
	while (row->is_end && rows->count && rows->all[rows->count - 1].address == address &&
	       !rows->all[rows->count - 1].is_end)
		rows->count--;
	if (source_read(reading, row->file) ||
	    array_grow(&rows->all, &rows->room, rows->count + 1, sizeof(*rows->all)))
		return -ENOMEM;
	rows->all[rows->count] = (struct code_row){
		.address = address,
		.source = row->is_end || !row->line ? NULL : reading->source,
		.line = row->is_end ? 0 : row->line,
		.is_statement = row->is_statement && !row->is_end,
		.is_end = row->is_end,
		.is_optimized = reading->is_optimized != 0,
		.order = (uint32_t)rows->count & (CODE_ROWS_MAX - 1),
	};
	rows->count++;
	return 0;
}

/*
 * GCC writes its options into the producer, and the last -O holds. LLVM writes none, but its
 * unoptimized code keeps each variable in the frame, so that the unit has no location lists (DWARF
 * 5).
 */
static int is_optimized(Dwarf_Die *unit)
{
	Dwarf_Attribute attribute;
	const char *producer = dwarf_formstring(dwarf_attr(unit, DW_AT_producer, &attribute));
	const char *level = NULL;

	for (const char *at = producer; at && (at = strstr(at, " -O")); at += 3)
		level = at + 3;
	return level ? level[0] != '0' : dwarf_hasattr(unit, DW_AT_loclists_base);
}

static int unit_add(struct reading *reading, Dwarf_Die *unit)
{
	Dwarf_Die described = *unit;
	Dwarf_Attribute attribute;
	Dwarf_Word offset;
	size_t count;
	int err;

	if (dwarf_formudata(dwarf_attr(unit, DW_AT_stmt_list, &attribute), &offset) ||
	    dwarf_getsrcfiles(unit, &reading->files, &count))
		return 0;
	reading->folder = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attribute));
	code_dwarf_split(reading->file, &described);
	reading->is_optimized = is_optimized(&described);
	reading->source = NULL;
	reading->before = reading->rows->sources;
	err = line_program_run(reading->section->d_buf, reading->section->d_size, offset, row_add,
			       reading);
	return err == -EINVAL ? 0 : err;
}

/* libdw has unpacked it, if it was packed. */
static const Elf_Data *section_of(Elf *elf)
{
	Elf_Scn *section = NULL;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		return NULL;
	while ((section = elf_nextscn(elf, section))) {
		const Elf64_Shdr *header = elf64_getshdr(section);
		const char *name = header ? elf_strptr(elf, names, header->sh_name) : NULL;
		const Elf_Data *data;

		if (!name ||
		    (strcmp(name, ".debug_line") != 0 && strcmp(name, ".zdebug_line") != 0))
			continue;
		data = elf_getdata(section, NULL);
		return data && data->d_buf ? data : NULL;
	}
	return NULL;
}

/* An end sorts before a beginning at the same address. */
static int by_address(const void *one, const void *other)
{
	const struct code_row *a = one, *b = other;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->is_end != b->is_end)
		return a->is_end ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

/* One unit's rows come sorted, and most units one behind the other: then there is nothing to do. */
static void rows_sort(struct code_rows *rows)
{
	for (size_t i = 1; i < rows->count; i++) {
		if (by_address(&rows->all[i - 1], &rows->all[i]) > 0) {
			qsort(rows->all, rows->count, sizeof(*rows->all), by_address);
			return;
		}
	}
}

int code_rows_read(struct code_rows *rows, struct code_file *file)
{
	struct code_dwarf *dwarf = code_dwarf_of(file);
	struct reading reading = { .rows = rows, .file = file, .start = UINT64_MAX };
	Dwarf_CU *unit = NULL;
	Dwarf_Die die;
	int err = 0;

	*rows = (struct code_rows){ 0 };
	if (!dwarf)
		return 0;
	reading.bias = (uint64_t)dwarf->bias;
	reading.section = section_of(dwarf->elf);
	if (!reading.section)
		return 0;
	/*
	 * type units share the line programs of others; of a skeleton the rest is in another file
	 */
	while (!err && !dwarf_get_units(dwarf->dwarf, unit, &unit, NULL, NULL, &die, NULL))
		if (dwarf_tag(&die) == DW_TAG_compile_unit ||
		    dwarf_tag(&die) == DW_TAG_skeleton_unit)
			err = unit_add(&reading, &die);
	rows_sort(rows);
	return err;
}

void code_rows_release(struct code_rows *rows)
{
	for (struct code_row_source *source = rows->sources, *next; source; source = next) {
		next = source->next;
		free(source);
	}
	free(rows->all);
	*rows = (struct code_rows){ 0 };
}

const struct code_row *code_row_at(const struct code_rows *rows, uint64_t address)
{
	size_t at_most = sorted_at_most(rows->all, rows->count, sizeof(*rows->all),
					offsetof(struct code_row, address), address);

	return at_most && rows->all[at_most - 1].source ? &rows->all[at_most - 1] : NULL;
}
