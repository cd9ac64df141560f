/* SPDX-License-Identifier: MIT */
#include "target/expression/local_frame.h"

#include "base/cfi.h"
#include "target/expression/variable.h"

#include <dwarf.h>
#include <errno.h>
#include <waymark/error.h>

#define LISTED_MAX 256 /* entries of one location list */
#define SIBLINGS_MAX 4096
#define SPANS_MAX 4096

struct locating {
	struct code_file *file;
	const struct code_dwarf *dwarf;
	struct frame_place *frame;
	Dwarf_Die function;
	const char *why;
};

static int refuse(struct locating *locating, int err, const char *why)
{
	locating->why = why;
	return err;
}

/* ---- where the code is ---- */

static int span_add(struct frame_span *spans, unsigned int *count, uint64_t start, uint64_t end)
{
	if (start >= end)
		return 0;
	/* what follows on what came before is one */
	if (*count && spans[*count - 1].end == start) {
		spans[*count - 1].end = end;
		return 0;
	}
	if (*count == FRAME_PLACES_MAX)
		return -ENOSPC;
	spans[(*count)++] = (struct frame_span){ start, end };
	return 0;
}

static int spans_of(const struct locating *locating, Dwarf_Die *die, struct frame_span *spans,
		    unsigned int *count)
{
	uint64_t bias = (uint64_t)locating->dwarf->bias;
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	*count = 0;
	for (unsigned int i = 0; i < SPANS_MAX; i++) {
		at = dwarf_ranges(die, at, &base, &start, &end);
		if (at <= 0)
			return at < 0 ? -WM_E_WATCH_DAMAGED : 0;
		if (span_add(spans, count, start + bias, end + bias))
			return -ENOSPC;
	}
	return -WM_E_WATCH_DAMAGED;
}

/* The function that the variable is in, where that has code of its own. */
static int function_of(struct locating *locating, const struct scope *scope)
{
	struct frame_place *frame = locating->frame;
	int level = scope->level - 1, err;
	Dwarf_Addr entry;

	while (level > 0 && dwarf_tag((Dwarf_Die *)&scope->levels[level]) != DW_TAG_subprogram &&
	       dwarf_tag((Dwarf_Die *)&scope->levels[level]) != DW_TAG_inlined_subroutine)
		level--;
	if (level <= 0)
		return refuse(locating, -WM_E_WATCH_LOCAL, "it is in no function");
	locating->function = scope->levels[level];
	frame->is_inlined = dwarf_tag(&locating->function) == DW_TAG_inlined_subroutine;
	if (frame->is_inlined)
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "its function is inlined, and has no frame of its own");
	err = spans_of(locating, &locating->function, frame->code, &frame->code_count);
	if (err || !frame->code_count)
		return refuse(locating, -WM_E_WATCH_OPTIMISED,
			      "there is no code of its function, or in too many pieces");
	frame->entry = dwarf_entrypc(&locating->function, &entry)
			       ? frame->code[0].start
			       : entry + (uint64_t)locating->dwarf->bias;
	return code_file_is_text(locating->file, frame->entry, 1)
		       ? 0
		       : refuse(locating, -WM_E_WATCH_OPTIMISED, "its function is not in the file");
}

/* Where its block has code; without one, all of the function. */
static int block_of(struct locating *locating, const struct scope *scope)
{
	struct frame_place *frame = locating->frame;

	for (int level = scope->level - 1; level > 0; level--) {
		Dwarf_Die die = scope->levels[level];

		if (dwarf_tag(&die) == DW_TAG_subprogram)
			break;
		if (spans_of(locating, &die, frame->valid, &frame->valid_count))
			return refuse(locating, -WM_E_WATCH_LOCAL,
				      "its block is in too many pieces");
		if (frame->valid_count)
			return 0;
	}
	for (unsigned int i = 0; i < frame->code_count; i++)
		frame->valid[i] = frame->code[i];
	frame->valid_count = frame->code_count;
	return 0;
}

/* ---- registers, from the CFA ---- */

/*
 * How far below the CFA the register points, where that is so from the prologue's end on: of the
 * stack pointer the farthest, as compilers who name places by it move it no more.
 */
static int depth_of(struct locating *locating, unsigned int reg, int64_t *depth)
{
	uint64_t entry = locating->frame->entry, at = entry;
	struct cfi_function function;
	struct cfi_reader reader;
	struct cfi_row row;
	int has_any = 0;

	if (code_file_cfi(locating->file, entry, &reader, &function))
		return -ENOENT;
	for (unsigned int i = 0; i < SPANS_MAX && at < function.end; i++) {
		if (cfi_row(&reader, &function, at, &row, &at))
			return -ENOENT;
		if (row.cfa.how != CFI_AT)
			return -ENOENT;
		if (row.cfa.reg != reg)
			continue;
		if (reg == CFI_RBP && has_any && *depth != row.cfa.offset)
			return -ENOENT;
		if (!has_any || row.cfa.offset > *depth)
			*depth = row.cfa.offset;
		has_any = 1;
	}
	return has_any ? 0 : -ENOENT;
}

/* A register + offset, as an offset from the CFA. */
static int from_register(struct locating *locating, unsigned int reg, int64_t offset, int64_t *to)
{
	int64_t depth = 0;

	if (reg != CFI_RBP && reg != CFI_RSP)
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "its address is in a register that holds no frame");
	if (depth_of(locating, reg, &depth))
		return refuse(
			locating, -WM_E_WATCH_LOCAL,
			"the debug information does not say where its frame is, as in a function that aligns its stack");
	*to = offset - depth;
	return 0;
}

static int expression_of(Dwarf_Attribute *location, Dwarf_Op **ops, size_t *count)
{
	if (!code_dwarf_is_expression(location))
		return -ENOENT;
	return dwarf_getlocation(location, ops, count) ? -WM_E_WATCH_DAMAGED : 0;
}

static int base_of(struct locating *locating, int64_t *base)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;

	*base = 0;
	if (!dwarf_attr_integrate(&locating->function, DW_AT_frame_base, &attribute) ||
	    expression_of(&attribute, &ops, &count) || count != 1)
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "its function has no frame base in the debug information");
	switch (ops[0].atom) {
	case DW_OP_call_frame_cfa:
		return 0;
	case DW_OP_reg0 ... DW_OP_reg31:
		return from_register(locating, ops[0].atom - DW_OP_reg0, 0, base);
	case DW_OP_breg0 ... DW_OP_breg31:
		return from_register(locating, ops[0].atom - DW_OP_breg0, (int64_t)ops[0].number,
				     base);
	default:
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "its function has no frame base in the debug information");
	}
}

/* ---- the variable ---- */

/* One expression's place. */
static int place_of(struct locating *locating, const Dwarf_Op *ops, size_t count, int64_t *offset)
{
	int err;

	if (count && ops[count - 1].atom == DW_OP_deref)
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "it is in memory to which a pointer in the frame leads");
	if (count != 1)
		return location_refusal(ops, count);
	switch (ops[0].atom) {
	case DW_OP_fbreg:
		err = base_of(locating, offset);
		if (!err && __builtin_add_overflow(*offset, (int64_t)ops[0].number, offset))
			err = -WM_E_WATCH_DAMAGED;
		return err;
	case DW_OP_breg0 ... DW_OP_breg31:
		return from_register(locating, ops[0].atom - DW_OP_breg0, (int64_t)ops[0].number,
				     offset);
	default:
		return location_refusal(ops, count);
	}
}

/* The result of all entries of a list. */
struct listed {
	int has_place, has_moved, has_constant;
	int err; /* the first other reason */
};

static int list_settle(struct locating *locating, const struct listed *listed)
{
	if (listed->err == -WM_E_WATCH_REGISTER || listed->has_moved ||
	    (listed->has_place && (listed->err || listed->has_constant)))
		return refuse(locating, -WM_E_WATCH_REGISTER,
			      "it is in a register or at another place for a time");
	if (listed->err)
		return listed->err;
	/* It has no place, and another constant in each stretch of code. */
	if (listed->has_constant)
		return refuse(locating, -WM_E_WATCH_OPTIMISED,
			      "the code has its values as constants");
	return listed->has_place ? 0 : -WM_E_WATCH_OPTIMISED;
}

/* A list: the same place in each of its entries, or none. */
static int list_read(struct locating *locating, Dwarf_Attribute *location, int64_t *offset)
{
	struct frame_place *frame = locating->frame;
	uint64_t bias = (uint64_t)locating->dwarf->bias;
	struct listed listed = { 0 };
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	Dwarf_Op *ops;
	size_t count;

	frame->valid_count = 0;
	for (unsigned int i = 0; i < LISTED_MAX; i++) {
		int64_t one;
		int err;

		at = dwarf_getlocations(location, at, &base, &start, &end, &ops, &count);
		if (at < 0)
			return -WM_E_WATCH_DAMAGED;
		if (!at)
			return list_settle(locating, &listed);
		err = place_of(locating, ops, count, &one);
		if (err == -WM_E_WATCH_CONSTANT) {
			listed.has_constant = 1;
			continue;
		}
		if (err) {
			if (!listed.err || err == -WM_E_WATCH_REGISTER)
				listed.err = err;
			continue;
		}
		listed.has_moved |= listed.has_place && one != *offset;
		listed.has_place = 1;
		*offset = one;
		if (span_add(frame->valid, &frame->valid_count, start + bias, end + bias))
			return refuse(locating, -WM_E_WATCH_LOCAL,
				      "its location list has too many ranges");
	}
	return -WM_E_WATCH_DAMAGED;
}

static uint64_t bytes_of(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	Dwarf_Die type;
	Dwarf_Word bytes;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attribute) ||
	    !dwarf_formref_die(&attribute, &type) || dwarf_aggregate_size(&type, &bytes))
		return 1;
	return bytes ? bytes : 1;
}

/* Whether another variable of the function, in another block, is in the same bytes. */
static int is_shared(struct locating *locating, const struct scope *scope, int64_t offset)
{
	struct scope walk = { .levels[0] = locating->function };
	Dwarf_Die own = scope->levels[scope->level];
	uint64_t bytes = bytes_of(&own);
	int level = 1;

	if (dwarf_child(&walk.levels[0], &walk.levels[1]))
		return 0;
	for (unsigned int i = 0; i < SIBLINGS_MAX && level > 0; i++) {
		Dwarf_Die *die = &walk.levels[level];
		int tag = dwarf_tag(die);
		Dwarf_Attribute attribute;
		Dwarf_Op *ops;
		size_t count;
		int64_t other;

		if ((tag == DW_TAG_variable || tag == DW_TAG_formal_parameter) &&
		    dwarf_dieoffset(die) != dwarf_dieoffset(&own) &&
		    dwarf_attr(die, DW_AT_location, &attribute) &&
		    !expression_of(&attribute, &ops, &count) && count == 1 &&
		    ops[0].atom == DW_OP_fbreg && !place_of(locating, ops, count, &other) &&
		    other < offset + (int64_t)bytes && offset < other + (int64_t)bytes_of(die))
			return 1;
		if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) &&
		    level + 1 < SCOPE_LEVELS_MAX && !dwarf_child(die, &walk.levels[level + 1])) {
			level++;
			continue;
		}
		while (level > 0 && code_dwarf_next(&walk.levels[level]))
			level--;
	}
	return 0;
}

static int locate(struct locating *locating, const struct scope *scope)
{
	struct frame_place *frame = locating->frame;
	Dwarf_Die die = scope->levels[scope->level];
	Dwarf_Attribute location;
	Dwarf_Op *ops;
	size_t count;
	int err = function_of(locating, scope);

	if (!err && !dwarf_attr(&die, DW_AT_location, &location))
		err = dwarf_hasattr_integrate(&die, DW_AT_const_value) ? -WM_E_WATCH_CONSTANT
								       : -WM_E_WATCH_OPTIMISED;
	if (err)
		return err;
	err = expression_of(&location, &ops, &count);
	if (err == -ENOENT) {
		err = list_read(locating, &location, &frame->offset);
	} else if (!err) {
		err = place_of(locating, ops, count, &frame->offset);
		if (!err)
			err = block_of(locating, scope);
	}
	if (!err && is_shared(locating, scope, frame->offset))
		return refuse(locating, -WM_E_WATCH_LOCAL,
			      "another variable of the function shares its place");
	return err;
}

int frame_locate(const struct scope *scope, struct code_file *file, struct frame_place *frame,
		 const char **why)
{
	struct locating locating = {
		.file = file, .dwarf = code_dwarf_of(file), .frame = frame, .why = ""
	};
	int err;

	*frame = (struct frame_place){ 0 };
	err = locating.dwarf ? locate(&locating, scope) : -WM_E_NO_DEBUG;
	*why = locating.why;
	return err;
}
