/* SPDX-License-Identifier: MIT */
#include "target/code/argument.h"

#include "target/code/dwarf.h"
#include "target/expression/declared.h"
#include "target/expression/type_make.h"

#include <dwarf.h>
#include <errno.h>
#include <string.h>

#define PARAMETERS_MAX 64
#define VALUE_BYTES_MAX 256
#define STACK_MAX 16 /* of an expression */

/* ---- the caller's frame ---- */

static int cfa_of(const struct code_frame *frame, struct cfi_row *row, uint64_t *cfa)
{
	uint64_t pc = code_frame_at(&frame->registers) - frame->base;
	struct cfi_reader reader;
	struct cfi_function function;

	return code_file_cfi(frame->file, pc, &reader, &function) ||
			       cfi_row(&reader, &function, pc, row, NULL) ||
			       cfi_cfa(&frame->memory, row, &frame->registers, cfa)
		       ? -ENOENT
		       : 0;
}

int code_frame_up(const struct code_frame *frame, struct cfi_registers *up)
{
	struct cfi_row row;
	uint64_t cfa;

	*up = frame->registers;
	if (!frame->file || cfa_of(frame, &row, &cfa) ||
	    cfi_step(&frame->memory, &row, cfa, up) != CFI_OUT)
		return -ENOENT;
	return 0;
}

/* ---- where a parameter is ---- */

struct evaluation {
	const struct code_frame *frame;
	Dwarf_Die *function;
	Dwarf_Attribute *attribute; /* whose expression it is */
	uint64_t pc;		    /* as the debug information has it */
	uint64_t stack[STACK_MAX];
	unsigned int depth;
	int is_value; /* what it came to is the value, and not where it is */
};

static uint64_t bias_of(const struct code_frame *frame)
{
	return (uint64_t)code_dwarf_of(frame->file)->bias;
}

static int function_of(const struct code_frame *frame, Dwarf_Die *function)
{
	if (!frame->file || !frame->start)
		return -ENOENT;
	return code_dwarf_function(frame->file, frame->start - frame->base, frame->name, function);
}

static int push(struct evaluation *of, uint64_t value)
{
	if (of->depth == STACK_MAX)
		return -ENOENT;
	of->stack[of->depth++] = value;
	return 0;
}

static int push_register(struct evaluation *of, unsigned int reg, uint64_t offset)
{
	const struct cfi_registers *registers = &of->frame->registers;

	return registers->known >> reg & 1 ? push(of, registers->values[reg] + offset) : -ENOENT;
}

static int push_cfa(struct evaluation *of, uint64_t offset)
{
	struct cfi_row row;
	uint64_t cfa;

	return cfa_of(of->frame, &row, &cfa) ? -ENOENT : push(of, cfa + offset);
}

static int push_frame(struct evaluation *of, uint64_t offset)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *op;
	size_t count;

	if (!dwarf_attr_integrate(of->function, DW_AT_frame_base, &attribute) ||
	    dwarf_getlocation_addr(&attribute, of->pc, &op, &count, 1) != 1 || count != 1)
		return -ENOENT;
	if (op->atom == DW_OP_call_frame_cfa)
		return push_cfa(of, offset);
	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg15)
		return push_register(of, op->atom - DW_OP_reg0, offset);
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg15)
		return push_register(of, op->atom - DW_OP_breg0, op->number + offset);
	return -ENOENT;
}

static int read_memory(const struct evaluation *of, uint64_t address, void *to, size_t bytes)
{
	const struct cfi_reader *memory = &of->frame->memory;

	return memory->read(memory->data, address, to, bytes) ? -ENOENT : 0;
}

static int take_two(struct evaluation *of, uint8_t atom)
{
	uint64_t last, *to;

	if (of->depth < 2)
		return -ENOENT;
	last = of->stack[--of->depth];
	to = &of->stack[of->depth - 1];
	switch (atom) {
	case DW_OP_plus:
		*to += last;
		return 0;
	case DW_OP_minus:
		*to -= last;
		return 0;
	case DW_OP_mul:
		*to *= last;
		return 0;
	case DW_OP_and:
		*to &= last;
		return 0;
	default:
		return -ENOENT;
	}
}

static int push_entry_value(struct evaluation *of, const Dwarf_Op *op);

static int take_op(struct evaluation *of, const Dwarf_Op *op)
{
	uint64_t *top = of->depth ? &of->stack[of->depth - 1] : NULL;

	switch (op->atom) {
	case DW_OP_lit0 ... DW_OP_lit31:
		return push(of, op->atom - DW_OP_lit0);
	case DW_OP_const1u ... DW_OP_consts:
		return push(of, op->number);
	case DW_OP_addr:
		return push(of, op->number + bias_of(of->frame) + of->frame->base);
	case DW_OP_breg0 ... DW_OP_breg15:
		return push_register(of, op->atom - DW_OP_breg0, op->number);
	case DW_OP_fbreg:
		return push_frame(of, op->number);
	case DW_OP_call_frame_cfa:
		return push_cfa(of, 0);
	case DW_OP_plus_uconst:
		if (top)
			*top += op->number;
		return top ? 0 : -ENOENT;
	case DW_OP_deref:
		return top ? read_memory(of, *top, top, sizeof(*top)) : -ENOENT;
	case DW_OP_entry_value:
	case DW_OP_GNU_entry_value:
		return push_entry_value(of, op);
	case DW_OP_stack_value:
		of->is_value = 1;
		return top ? 0 : -ENOENT;
	default:
		return take_two(of, op->atom);
	}
}

/* Evaluate an expression to its bytes. -ENOENT also for values in vector registers or in pieces. */
static int evaluate(struct evaluation *of, const Dwarf_Op *ops, size_t count, void *value,
		    size_t bytes)
{
	int err = count ? 0 : -ENOENT;

	if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15) {
		of->is_value = 1;
		err = push_register(of, ops[0].atom - DW_OP_reg0, 0);
		count = 0;
	}
	for (size_t i = 0; i < count && !err; i++)
		err = of->is_value ? -ENOENT : take_op(of, &ops[i]);
	if (err || !of->depth)
		return -ENOENT;
	if (!of->is_value)
		return read_memory(of, of->stack[of->depth - 1], value, bytes);
	if (bytes > sizeof(uint64_t))
		return -ENOENT;
	memcpy(value, &of->stack[of->depth - 1], bytes);
	return 0;
}

/* ---- what a register held at the function's entry, by the caller's words ---- */

#define SITES_DEPTH_MAX 32
#define SITES_MAX 65536u

struct site_search {
	uint64_t return_pc; /* 0: look for tail calls */
	unsigned int looked_at;
	Dwarf_Die site;
};

static int is_site(Dwarf_Die *die, const struct site_search *search)
{
	Dwarf_Attribute attribute;
	Dwarf_Addr pc;
	bool is_tail;

	if (dwarf_tag(die) != DW_TAG_call_site)
		return 0;
	if (!search->return_pc)
		return dwarf_attr(die, DW_AT_call_tail_call, &attribute) &&
		       !dwarf_formflag(&attribute, &is_tail) && is_tail;
	return dwarf_attr(die, DW_AT_call_return_pc, &attribute) &&
	       !dwarf_formaddr(&attribute, &pc) && pc == search->return_pc;
}

/* 1: found, 0: not found, -1: too much to look at. */
static int site_find(Dwarf_Die *in, struct site_search *search, unsigned int depth)
{
	Dwarf_Die child;
	int found = 0;

	if (depth == SITES_DEPTH_MAX)
		return -1;
	if (dwarf_child(in, &child))
		return 0;
	do {
		int tag = dwarf_tag(&child);

		if (search->looked_at++ == SITES_MAX)
			return -1;
		if (is_site(&child, search)) {
			search->site = child;
			return 1;
		}
		if (tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine)
			found = site_find(&child, search, depth + 1);
	} while (!found && !dwarf_siblingof(&child, &child));
	return found;
}

/* Whether the site's call is to the function, and not to one that has jumped to it. */
static int is_call_to(Dwarf_Die *site, const struct code_frame *caller,
		      const struct code_frame *callee)
{
	struct site_search tail = { 0 };
	Dwarf_Attribute attribute;
	Dwarf_Die origin, function;
	const char *name;
	Dwarf_Addr pc;

	if (!dwarf_attr(site, DW_AT_call_origin, &attribute) ||
	    !dwarf_formref_die(&attribute, &origin))
		return 0;
	if (!dwarf_lowpc(&origin, &pc)) {
		if (caller->base + bias_of(caller) + pc != callee->start)
			return 0;
	} else {
		name = code_dwarf_linkage(&origin);
		name = name ? name : dwarf_diename(&origin);
		if (!name || strcmp(name, callee->name))
			return 0;
	}
	/* a function that makes tail calls may have been come back to by one */
	return !function_of(callee, &function) &&
	       (dwarf_hasattr(&function, DW_AT_call_all_calls) ||
		dwarf_hasattr(&function, DW_AT_call_all_tail_calls)) &&
	       !site_find(&function, &tail, 0);
}

static int is_register(Dwarf_Attribute *attribute, uint8_t atom)
{
	Dwarf_Op *ops;
	size_t count;

	return !dwarf_getlocation(attribute, &ops, &count) && count == 1 && ops[0].atom == atom;
}

/* A parameter of the call: by an expression that is the caller's. */
static int site_value(Dwarf_Die *site, const struct code_frame *caller, Dwarf_Die *function,
		      uint8_t atom, uint64_t *value)
{
	struct evaluation of = { .frame = caller,
				 .function = function,
				 .pc = code_frame_at(&caller->registers) - caller->base -
				       bias_of(caller) };
	Dwarf_Attribute attribute;
	Dwarf_Die child;
	Dwarf_Op *ops;
	size_t count;
	int err = 0;

	if (dwarf_child(site, &child))
		return -ENOENT;
	while (dwarf_tag(&child) != DW_TAG_call_site_parameter ||
	       !dwarf_attr(&child, DW_AT_location, &attribute) || !is_register(&attribute, atom))
		if (dwarf_siblingof(&child, &child))
			return -ENOENT;
	if (!dwarf_attr(&child, DW_AT_call_value, &attribute) ||
	    dwarf_getlocation(&attribute, &ops, &count))
		return -ENOENT;
	of.attribute = &attribute;
	for (size_t i = 0; i < count && !err; i++)
		err = take_op(&of, &ops[i]);
	if (err || of.depth != 1)
		return -ENOENT;
	*value = of.stack[0];
	return 0;
}

static int push_entry_value(struct evaluation *of, const Dwarf_Op *op)
{
	const struct code_frame *caller = of->frame->caller;
	struct site_search search = { 0 };
	Dwarf_Attribute inner;
	Dwarf_Die function;
	Dwarf_Op *ops;
	size_t count;
	uint64_t value;

	if (!caller || caller->registers.is_exact ||
	    dwarf_getlocation_attr(of->attribute, op, &inner) ||
	    dwarf_getlocation(&inner, &ops, &count) || count != 1 || ops[0].atom < DW_OP_reg0 ||
	    ops[0].atom > DW_OP_reg15 || function_of(caller, &function))
		return -ENOENT;
	search.return_pc = caller->registers.values[CFI_RETURN] - caller->base - bias_of(caller);
	if (site_find(&function, &search, 0) != 1 || !is_call_to(&search.site, caller, of->frame) ||
	    site_value(&search.site, caller, &function, ops[0].atom, &value))
		return -ENOENT;
	return push(of, value);
}

/* ---- all of them ---- */

/* The compiler knew it, and made code for that value alone. */
static int constant_of(Dwarf_Die *parameter, void *value, size_t bytes)
{
	Dwarf_Attribute attribute;
	Dwarf_Sword number;
	Dwarf_Word word;
	int err;

	if (bytes > sizeof(word) || !dwarf_attr(parameter, DW_AT_const_value, &attribute))
		return -ENOENT;
	if (dwarf_whatform(&attribute) == DW_FORM_sdata ||
	    dwarf_whatform(&attribute) == DW_FORM_implicit_const) {
		err = dwarf_formsdata(&attribute, &number);
		word = (Dwarf_Word)number;
	} else {
		err = dwarf_formudata(&attribute, &word);
	}
	if (!err)
		memcpy(value, &word, bytes);
	return err ? -ENOENT : 0;
}

static int value_of(const struct code_frame *frame, Dwarf_Die *function, Dwarf_Die *parameter,
		    void *value, size_t bytes)
{
	Dwarf_Attribute attribute;
	struct evaluation of = { .frame = frame,
				 .function = function,
				 .attribute = &attribute,
				 .pc = code_frame_at(&frame->registers) - frame->base -
				       bias_of(frame) };
	Dwarf_Op *ops;
	size_t count;

	if (!dwarf_attr(parameter, DW_AT_location, &attribute))
		return constant_of(parameter, value, bytes);
	if (dwarf_getlocation_addr(&attribute, of.pc, &ops, &count, 1) != 1)
		return -ENOENT;
	return evaluate(&of, ops, count, value, bytes);
}

/* Its bytes and its type. 0, or why not. */
static int parameter_read(const struct code_frame *frame, Dwarf_Die *function, Dwarf_Die *parameter,
			  struct watch_type *type, uint8_t value[VALUE_BYTES_MAX])
{
	struct declared declared = { 0 };
	uint64_t bytes = 0;
	int err = declared_of(parameter, &declared);

	if (!err)
		err = declared_bytes(&declared, &bytes);
	if (!err && (!bytes || bytes > VALUE_BYTES_MAX))
		err = -ENOENT;
	if (!err)
		err = value_of(frame, function, parameter, value, bytes);
	return err ? err : type_make(type, &declared, bytes, 0, 0, frame->file);
}

struct taking {
	const struct code_frame *frame;
	Dwarf_Die *function;
	int (*take)(const char *name, const struct watch_type *type, const void *value, void *data);
	void *data;
};

static int parameter_take(const struct taking *taking, Dwarf_Die *parameter)
{
	const char *name = dwarf_diename(parameter);
	struct watch_type type = { 0 };
	uint8_t value[VALUE_BYTES_MAX];
	int err;

	if (!name)
		return 0;
	err = parameter_read(taking->frame, taking->function, parameter, &type, value);
	if (err != -ENOMEM)
		err = taking->take(name, err ? NULL : &type, err ? NULL : value, taking->data);
	expression_type_release(&type);
	return err;
}

int code_arguments(const struct code_frame *frame,
		   int (*take)(const char *name, const struct watch_type *type, const void *value,
			       void *data),
		   void *data)
{
	Dwarf_Die function, origin, child;
	const struct taking taking = { frame, &function, take, data };
	Dwarf_Attribute attribute;
	unsigned int count = 0;
	int is_copy, err = 0;

	if (function_of(frame, &function))
		return -ENOENT;
	is_copy = dwarf_attr(&function, DW_AT_abstract_origin, &attribute) &&
		  dwarf_formref_die(&attribute, &origin);
	if (dwarf_child(is_copy ? &origin : &function, &child))
		return -ENOENT;
	do {
		Dwarf_Die parameter;

		if (dwarf_tag(&child) != DW_TAG_formal_parameter)
			continue;
		if (!is_copy || code_dwarf_concrete(&function, &child, &parameter))
			parameter = child;
		err = parameter_take(&taking, &parameter);
	} while (!err && ++count < PARAMETERS_MAX && !dwarf_siblingof(&child, &child));
	return err;
}
