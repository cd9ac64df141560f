/* SPDX-License-Identifier: MIT */
/* A variable's location, by its description. */
#include "target/expression/variable.h"

#include <dwarf.h>
#include <errno.h>
#include <waymark/error.h>

#ifndef DF_1_PIE
#define DF_1_PIE 0x08000000
#endif

#define DYNAMIC_MAX 4096

int location_is_program(const struct code_file *file)
{
	if (file->header.e_type == ET_EXEC)
		return 1;
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct code_segment *segment = &file->segments[i];
		Elf64_Dyn entry;

		if (segment->type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; at / sizeof(entry) < DYNAMIC_MAX; at += sizeof(entry)) {
			if (code_file_read(file, segment->address + at, &entry, sizeof(entry)) ||
			    entry.d_tag == DT_NULL)
				return 0;
			if (entry.d_tag == DT_FLAGS_1)
				return (entry.d_un.d_val & DF_1_PIE) != 0;
		}
	}
	return 0;
}

/*
 * An offset in the program's thread-local block as one from the thread pointer. 0 or -ENOENT. The
 * program's own block ends where the thread pointer points (variant II), aligned as its segment
 * asks; those of libraries are found through the loader's numbers (tls_block.h).
 */
static int thread_offset(const struct code_file *file, uint64_t offset, uint64_t *start)
{
	for (size_t i = 0; i < file->segment_count; i++) {
		const struct code_segment *segment = &file->segments[i];
		uint64_t mask = segment->alignment ? segment->alignment - 1 : 0, first;

		if (segment->type != PT_TLS)
			continue;
		if (mask & (mask + 1) || offset >= segment->bytes || segment->bytes > INT32_MAX ||
		    mask > INT32_MAX)
			return -ENOENT;
		first = (0 - segment->address) & mask;
		*start = offset - (((segment->bytes - first + mask) & ~mask) + first);
		return 0;
	}
	return -ENOENT;
}

int location_find_thread(const struct code_file *file, uint64_t offset, enum watch_base *base,
			 uint64_t *start)
{
	*base = location_is_program(file) ? WATCH_IN_THREAD : WATCH_IN_BLOCK;
	if (thread_offset(file, offset, start))
		return -WM_E_WATCH_THREAD;
	if (*base == WATCH_IN_BLOCK)
		*start = offset;
	return 0;
}

/* What an operation's number is: some are indices into a table of the unit's. */
static int op_number(Dwarf_Attribute *location, const Dwarf_Op *op, uint64_t *number)
{
	Dwarf_Attribute attribute;
	Dwarf_Addr address;

	switch (op->atom) {
	case DW_OP_addr:
	case DW_OP_const4u:
	case DW_OP_const8u:
	case DW_OP_constu:
		*number = op->number;
		return 0;
	case DW_OP_addrx:
	case DW_OP_constx:
	case DW_OP_GNU_addr_index:
	case DW_OP_GNU_const_index:
		if (dwarf_getlocation_attr(location, op, &attribute) ||
		    dwarf_formaddr(&attribute, &address))
			return -ENOENT;
		*number = address;
		return 0;
	default:
		return -ENOENT;
	}
}

static int is_thread_op(uint8_t atom)
{
	return atom == DW_OP_GNU_push_tls_address || atom == DW_OP_form_tls_address;
}

static int is_of_registers(uint8_t atom)
{
	switch (atom) {
	case DW_OP_breg0 ... DW_OP_breg31:
	case DW_OP_bregx:
	case DW_OP_regval_type:
	case DW_OP_GNU_regval_type:
	case DW_OP_entry_value:
	case DW_OP_GNU_entry_value:
		return 1;
	default:
		return 0;
	}
}

/* A value without a place: computed from registers, or a constant. */
static int value_refusal(const Dwarf_Op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (is_of_registers(ops[i].atom))
			return -WM_E_WATCH_REGISTER;
	return -WM_E_WATCH_CONSTANT;
}

int location_refusal(const Dwarf_Op *ops, size_t count)
{
	if (!count)
		return -WM_E_WATCH_OPTIMISED;
	for (size_t i = 0; i < count; i++)
		if (ops[i].atom == DW_OP_piece || ops[i].atom == DW_OP_bit_piece)
			return -WM_E_WATCH_SPLIT;
	switch (ops[count - 1].atom) {
	case DW_OP_stack_value:
	case DW_OP_implicit_value:
		return value_refusal(ops, count);
	case DW_OP_implicit_pointer:
	case DW_OP_GNU_implicit_pointer:
		return -WM_E_WATCH_OPTIMISED;
	default:
		break;
	}
	for (size_t i = 0; i < count; i++)
		switch (ops[i].atom) {
		case DW_OP_fbreg:
		case DW_OP_call_frame_cfa:
		case DW_OP_breg0 ... DW_OP_breg31:
		case DW_OP_bregx:
			return -WM_E_WATCH_LOCAL;
		case DW_OP_reg0 ... DW_OP_reg31:
		case DW_OP_regx:
			return -WM_E_WATCH_REGISTER;
		default:
			break;
		}
	return -WM_E_WATCH_SPLIT;
}

static int expression_read(Dwarf_Attribute *location, const Dwarf_Op *ops, size_t count,
			   struct code_file *file, enum watch_base *base, uint64_t *start)
{
	const struct code_dwarf *dwarf = code_dwarf_of(file);
	uint64_t number;

	if (!count || op_number(location, &ops[0], &number))
		return location_refusal(ops, count);
	if (count == 2 && is_thread_op(ops[1].atom)) {
		return location_find_thread(file, number, base, start);
	}
	if (count == 2 && ops[1].atom == DW_OP_plus_uconst)
		number += ops[1].number;
	else if (count != 1)
		return location_refusal(ops, count);
	*base = WATCH_IN_MODULE;
	*start = number + (uint64_t)dwarf->bias;
	/*
	 * What the linker dropped it left at 0, where the file's head is mapped, or where it puts
	 * gravestones.
	 */
	return code_file_segment(file, *start) &&
			       (!file->section_count || code_file_section_at(file, *start))
		       ? 0
		       : -WM_E_WATCH_OPTIMISED;
}

int location_find(Dwarf_Die *die, struct code_file *file, enum watch_base *base, uint64_t *start)
{
	Dwarf_Attribute location;
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr(die, DW_AT_location, &location)) {
		if (dwarf_hasattr_integrate(die, DW_AT_const_value))
			return -WM_E_WATCH_CONSTANT;
		return dwarf_hasattr(die, DW_AT_declaration) || dwarf_tag(die) == DW_TAG_member
			       ? -WM_E_WATCH_EXTERN
			       : -WM_E_WATCH_OPTIMISED;
	}
	if (!code_dwarf_is_expression(&location)) /* a list: another place at each instruction */
		return -WM_E_WATCH_LOCAL;
	if (dwarf_getlocation(&location, &ops, &count))
		return -WM_E_WATCH_DAMAGED;
	return expression_read(&location, ops, count, file, base, start);
}
