/* SPDX-License-Identifier: MIT */
#include "target/code/line_program.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

struct bytes {
	const uint8_t *at, *end;
	int is_short; /* more was asked for than there is */
};

struct program {
	struct bytes bytes;
	uint8_t min_instruction, default_is_statement, line_range, opcode_base;
	int8_t line_base;
	uint8_t lengths[256]; /* operands of opcodes below opcode_base */
	struct line_program_row row;
	int has_start;
	int (*take)(const struct line_program_row *row, void *data);
	void *data;
};

static uint64_t fixed(struct bytes *bytes, size_t count)
{
	uint64_t value = 0;

	if ((size_t)(bytes->end - bytes->at) < count) {
		bytes->is_short = 1;
		bytes->at = bytes->end;
		return 0;
	}
	memcpy(&value, bytes->at, count);
	bytes->at += count;
	return value;
}

static uint64_t leb(struct bytes *bytes, int is_signed)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)fixed(bytes, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		value |= ~0ull << shift;
	return value;
}

/* Read only what is needed to find and run the program; libdw reads the names. */
static int head_read(struct program *program)
{
	struct bytes *bytes = &program->bytes;
	uint64_t length = fixed(bytes, 4);
	size_t wide = length == UINT32_MAX ? 8 : 4;
	const uint8_t *begin;
	uint16_t version;

	if (wide == 8)
		length = fixed(bytes, 8);
	if (bytes->is_short || length > (size_t)(bytes->end - bytes->at))
		return -EINVAL;
	bytes->end = bytes->at + length;
	version = (uint16_t)fixed(bytes, 2);
	if (version < 2 || version > 5)
		return -EINVAL;
	if (version == 5)
		fixed(bytes, 2); /* sizes of an address and a segment */
	length = fixed(bytes, wide);
	if (bytes->is_short || length > (size_t)(bytes->end - bytes->at))
		return -EINVAL;
	begin = bytes->at + length;
	program->min_instruction = (uint8_t)fixed(bytes, 1);
	if (version >= 4)
		fixed(bytes, 1); /* operations an instruction: x86 has one */
	program->default_is_statement = (uint8_t)fixed(bytes, 1);
	program->line_base = (int8_t)fixed(bytes, 1);
	program->line_range = (uint8_t)fixed(bytes, 1);
	program->opcode_base = (uint8_t)fixed(bytes, 1);
	for (unsigned int i = 1; i < program->opcode_base; i++)
		program->lengths[i] = (uint8_t)fixed(bytes, 1);
	if (bytes->is_short || !program->line_range || !program->opcode_base || bytes->at > begin)
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
	uint64_t length = leb(&program->bytes, 0);
	const uint8_t *end;
	int err = 0;

	if (!length || length > (size_t)(program->bytes.end - program->bytes.at))
		return -EINVAL;
	end = program->bytes.at + length;
	switch (fixed(&program->bytes, 1)) {
	case DW_LNE_end_sequence:
		program->row.is_end = 1;
		err = put_row(program);
		begin_sequence(program);
		break;
	case DW_LNE_set_address:
		program->row.address = fixed(&program->bytes, length - 1 < 8 ? length - 1 : 8);
		break;
	default: /* discriminators, and what is not known, say how long they are */
		break;
	}
	program->bytes.at = end;
	return err;
}

static int run_standard(struct program *program, uint8_t opcode)
{
	struct bytes *bytes = &program->bytes;

	switch (opcode) {
	case DW_LNS_copy:
		return put_row(program);
	case DW_LNS_advance_pc:
		advance(program, leb(bytes, 0));
		break;
	case DW_LNS_advance_line:
		program->row.line += (uint32_t)leb(bytes, 1);
		break;
	case DW_LNS_set_file:
		program->row.file = (uint32_t)leb(bytes, 0);
		break;
	case DW_LNS_negate_stmt:
		program->row.is_statement = !program->row.is_statement;
		break;
	case DW_LNS_const_add_pc:
		advance(program, (255u - program->opcode_base) / program->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		program->row.address += fixed(bytes, 2);
		break;
	default:
		for (unsigned int i = 0; i < program->lengths[opcode]; i++)
			leb(bytes, 0);
	}
	return 0;
}

int line_program_run(const uint8_t *section, size_t bytes, uint64_t offset,
		     int (*row)(const struct line_program_row *row, void *data), void *data)
{
	struct program program = { .take = row, .data = data };
	int err;

	if (offset > bytes)
		return -EINVAL;
	program.bytes = (struct bytes){ section + offset, section + bytes, 0 };
	err = head_read(&program);
	begin_sequence(&program);
	while (!err && program.bytes.at < program.bytes.end) {
		uint8_t opcode = (uint8_t)fixed(&program.bytes, 1);

		if (opcode >= program.opcode_base) {
			opcode = (uint8_t)(opcode - program.opcode_base);
			advance(&program, opcode / program.line_range);
			program.row.line += (uint32_t)(program.line_base +
						       opcode % program.line_range);
			err = put_row(&program);
		} else {
			err = opcode ? run_standard(&program, opcode) : run_extended(&program);
		}
		if (program.bytes.is_short)
			err = -EINVAL;
	}
	return err;
}
