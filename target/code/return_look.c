/* SPDX-License-Identifier: MIT */
#include "target/code/return_look.h"

#include "base/array.h"
#include "base/cfi.h"
#include "target/code/gather.h"
#include "target/code/move.h"
#include "target/code/span.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <waymark/error.h>

#define FUNCTIONS_MAX 256      /* that one ends in, each at the end of another */
#define INSNS_MAX (1u << 20)   /* of all of them */
#define SYMBOLS_MAX (1u << 18) /* of one module */
#define DEPTH_MAX 8	       /* modules behind each other */
#define ROWS_MAX 4096	       /* of the unwind information */

struct look {
	const struct sweep *sweep;
	struct cfi_reader reader;
	uint64_t starts[FUNCTIONS_MAX]; /* of functions, or parts of them; those to come are last */
	size_t count;
	unsigned int insns, rows;

	/* of the one that is looked at */
	const struct frame *frame;
	struct cfi_function cfi;
	struct cfi_row row; /* in force up to, not at, `until` */
	uint64_t until;
	ZydisRegister computed; /* which register the last instruction computed an address in */
	bool has_number;	/* of 64 bits */
	bool is_large;		/* adds something then: the large code model's way to any address */

	char *detail;
	size_t bytes;
};

__attribute__((format(printf, 2, 3))) static int looked_at(struct look *look, const char *format,
							   ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(look->detail, look->bytes, format, args);
	va_end(args);
	return -WM_E_RETURN_LOOKED_AT;
}

static int image_reads(void *data, uint64_t address, void *to, size_t bytes)
{
	return image_read(data, address, to, bytes);
}

static bool insn_at(const struct look *look, uint64_t address, struct move_insn *insn)
{
	size_t left;
	const uint8_t *data = image_at(&look->sweep->image, address, &left);

	return data && move_decode(insn, address, data, left);
}

static int row_find(struct look *look, uint64_t at)
{
	if (at < look->until)
		return 0;
	if (++look->rows > ROWS_MAX ||
	    cfi_row(&look->reader, &look->cfi, at, &look->row, &look->until))
		return -WM_E_RETURN_FRAME;
	return 0;
}

/* Where an instruction's memory is, if that is said relative to %rip. */
static bool is_relative(const struct move_insn *insn, const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.base == ZYDIS_REGISTER_RIP && insn->decoded.address_width == 64;
}

static uint64_t relative_address(const struct move_insn *insn, const ZydisDecodedOperand *operand)
{
	return insn->address + insn->decoded.length + (uint64_t)operand->mem.disp.value;
}

/* ---- in other modules ---- */

/* What is read of a module once, for all that end in a jump to it. NULL without memory. */
static struct sweep *outline_of(struct code_module *module)
{
	int err;

	if (module->outline)
		return module->outline;
	module->outline = calloc(1, sizeof(*module->outline));
	if (!module->outline)
		return NULL;
	err = sweep_make_outline(module->outline, module->file);
	/* of libc the names say enough */
	if (err || unpatchable_is_library(&module->outline->image))
		sweep_release(module->outline);
	return err == -ENOMEM ? NULL : module->outline;
}

void return_others_release(struct return_others *others)
{
	free(others->known);
	*others = (struct return_others){ 0 };
}

/*
 * The function that a module has of that name; 0: none. Linkers put the names behind the symbols.
 */
static uint64_t exported(const struct image *image, const char *name)
{
	Elf64_Sym symbol;

	uint64_t at = image->symbols;

	for (unsigned int i = 0; at && i < SYMBOLS_MAX && at + sizeof(symbol) <= image->texts;
	     i++, at += sizeof(symbol)) {
		if (image_read(image, at, &symbol, sizeof(symbol)))
			break;
		if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
		    !strcmp(image_text(image, image->texts + symbol.st_name), name))
			return symbol.st_value;
	}
	return 0;
}

/* 1: some module has a function of that name which looks at its return address; 0; -errno. */
static int other_look(struct return_others *others, const char *name)
{
	char detail[SPAN_DETAIL_BYTES];
	size_t place;
	int err = 0;

	if (!others || others->depth == DEPTH_MAX)
		return 0;
	for (size_t i = 0; i < others->known_count; i++)
		if (!strcmp(others->known[i].name, name))
			return others->known[i].looks;
	if (array_grow(&others->known, &others->known_room, others->known_count + 1,
		       sizeof(*others->known)))
		return -ENOMEM;
	place = others->known_count++;
	others->known[place] = (struct return_other){ .name = name };
	others->depth++;
	for (size_t i = 0; i < others->process->module_count && !err; i++) {
		struct sweep *outline = outline_of(others->process->modules[i]);
		uint64_t start = outline ? exported(&outline->image, name) : 0;
		const struct frame *frame = start ? frames_at(&outline->frames, start) : NULL;

		if (!outline)
			err = -ENOMEM;
		if (!frame || frame->start != start)
			continue;
		outline->others = others;
		err = return_look(outline, start, detail, sizeof(detail));
		if (err == -WM_E_RETURN_FRAME)
			err = 0;
	}
	others->depth--;
	others->known[place].looks = err == -WM_E_RETURN_LOOKED_AT;
	return err == -WM_E_RETURN_LOOKED_AT ? 1 : err;
}

/* ---- where it goes ---- */

static int function_add(struct look *look, uint64_t address)
{
	const struct frame *frame = frames_at(&look->sweep->frames, address);

	/* compilers jump to a function's end for what they know not to happen */
	if (!frame && address % 16 && frames_at(&look->sweep->frames, address - 1))
		return 0;
	if (!frame)
		return looked_at(look, "it ends in a jump to %#lx, which has no unwind information",
				 (unsigned long)address);
	for (size_t i = 0; i < look->count; i++)
		if (look->starts[i] == frame->start)
			return 0;
	if (look->count == FUNCTIONS_MAX)
		return looked_at(look, "it may end in more than %d functions", FUNCTIONS_MAX);
	look->starts[look->count++] = frame->start;
	return 0;
}

/* Through a word that the loader fills in. */
static int import_take(struct look *look, const struct sweep_import *import)
{
	int err;

	if (import->looks)
		return looked_at(look, "it ends in a jump to %s", import->name);
	err = other_look(look->sweep->others, import->name);
	if (err > 0)
		return looked_at(look, "it ends in a jump to %s, which looks at it", import->name);
	return !err && import->address ? function_add(look, import->address) : err;
}

static int jump_direct(struct look *look, uint64_t target)
{
	const struct sweep_import *import;

	if (target >= look->frame->start && target < look->frame->end)
		return 0;
	import = sweep_stub_import(look->sweep, target);
	return import ? import_take(look, import) : function_add(look, target);
}

/* A table of the function's own: the distance was added to an address, or the jump says so. */
static bool is_switch(const struct look *look, const struct move_insn *insn)
{
	return insn->decoded.attributes & ZYDIS_ATTRIB_HAS_NOTRACK ||
	       (!look->is_large && insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		insn->operands[0].reg.value == look->computed);
}

/* What a pointer may lead to. The large code model computes the addresses of all functions. */
static const char *pointer_looks(const struct look *look)
{
	const struct sweep *sweep = look->sweep;

	if (sweep->looking_pointer || !look->is_large)
		return sweep->looking_pointer;
	for (size_t i = 0; i < sweep->import_count; i++)
		if (sweep->imports[i].looks && !strncmp(sweep->imports[i].name, "dl", 2))
			return sweep->imports[i].name;
	return NULL;
}

/* Where the return address is `offset` above the stack pointer; elsewhere it is no function's end.
 */
static int jump_pointer(struct look *look, uint64_t at, int64_t offset)
{
	const char *name = pointer_looks(look);
	int err = name ? row_find(look, at) : 0;

	if (err || !name || look->row.cfa.how != CFI_AT || look->row.cfa.reg != CFI_RSP ||
	    look->row.cfa.offset != offset + 8)
		return err;
	return looked_at(look, "it ends in a jump through a pointer, which may lead to %s", name);
}

static int jump_indirect(struct look *look, const struct move_insn *insn)
{
	const struct sweep_import *import = NULL;

	if (is_relative(insn, &insn->operands[0]))
		import = sweep_import_at(look->sweep, relative_address(insn, &insn->operands[0]));
	if (import)
		return import_take(look, import);
	return is_switch(look, insn) ? 0 : jump_pointer(look, insn->address, 0);
}

/* A profiler of -pg looks at the return address of its caller. */
static int call_take(struct look *look, const struct move_insn *insn)
{
	const ZydisDecodedOperand *operand = &insn->operands[0];
	const struct sweep_import *import = NULL;

	if (insn->decoded.raw.imm[0].is_relative) {
		uint64_t target = insn->address + insn->decoded.length +
				  (uint64_t)insn->decoded.raw.imm[0].value.s;

		import = sweep_import_at(look->sweep, target);
		if (!import)
			import = sweep_stub_import(look->sweep, target);
	} else if (is_relative(insn, operand)) {
		import = sweep_import_at(look->sweep, relative_address(insn, operand));
	}
	return import && import->profiles ? looked_at(look, "it calls %s", import->name) : 0;
}

static int branch_take(struct look *look, const struct move_insn *insn)
{
	switch (insn->decoded.meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return call_take(look, insn);
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (insn->decoded.raw.imm[0].is_relative)
			return jump_direct(look,
					   insn->address + insn->decoded.length +
						   (uint64_t)insn->decoded.raw.imm[0].value.s);
		return jump_indirect(look, insn);
	case ZYDIS_CATEGORY_RET:
		/* to an address that it pushed, as retpolines do */
		return jump_pointer(look, insn->address, 8);
	default:
		return 0;
	}
}

/* ---- what it reads ---- */

/* Whether an operand is the word that holds the return address, or gives its address away. */
static bool is_return(const struct look *look, const struct move_insn *insn,
		      const ZydisDecodedOperand *operand)
{
	const struct cfi_rule *cfa = &look->row.cfa;
	bool is_address = operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN;
	int64_t at = operand->mem.disp.value;

	/* lea 8(%rsp), %rsp gives nothing away */
	if (is_address ? insn->operands[0].reg.value == ZYDIS_REGISTER_RSP : operand->size != 64)
		return false;
	/* a function that aligned its stack has a copy of the word above the saved frame pointer */
	if (cfa->how != CFI_AT || (cfa->reg != CFI_RSP && cfa->reg != CFI_RBP))
		return !is_address && operand->mem.base == ZYDIS_REGISTER_RBP && at == 8;
	return operand->mem.base ==
		       (cfa->reg == CFI_RSP ? ZYDIS_REGISTER_RSP : ZYDIS_REGISTER_RBP) &&
	       at - cfa->offset == -8;
}

static bool is_stack(const ZydisDecodedOperand *operand)
{
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       (operand->mem.base == ZYDIS_REGISTER_RSP ||
		operand->mem.base == ZYDIS_REGISTER_RBP) &&
	       operand->mem.index == ZYDIS_REGISTER_NONE;
}

static int uses_it(struct look *look, const struct move_insn *insn)
{
	return looked_at(look, "%s at %#lx uses it", ZydisMnemonicGetString(insn->decoded.mnemonic),
			 (unsigned long)insn->address);
}

/* mov %rbp, %rax: __builtin_frame_address(0) is next to the word, whatever is done with it. */
static int frame_take(struct look *look, const struct move_insn *insn)
{
	const ZydisDecodedOperand *to = &insn->operands[0];
	int err;

	if (insn->decoded.mnemonic != ZYDIS_MNEMONIC_MOV ||
	    insn->operands[1].type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    insn->operands[1].reg.value != ZYDIS_REGISTER_RBP ||
	    (to->type == ZYDIS_OPERAND_TYPE_REGISTER && to->reg.value == ZYDIS_REGISTER_RSP))
		return 0;
	err = row_find(look, insn->address);
	if (err || look->row.cfa.how != CFI_AT || look->row.cfa.reg != CFI_RBP ||
	    look->row.cfa.offset != 16)
		return err;
	return uses_it(look, insn);
}

static int operands_take(struct look *look, const struct move_insn *insn)
{
	int err;

	/* lock addl $0, (%rsp) is a barrier */
	if (insn->decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK)
		return 0;
	for (unsigned int i = 0; i < insn->decoded.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		/* calls and pushes write below; a pop reads */
		if (!is_stack(operand) || (operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
					   !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_READ)))
			continue;
		err = row_find(look, insn->address);
		if (err)
			return err;
		if (is_return(look, insn, operand))
			return uses_it(look, insn);
	}
	return 0;
}

static void computed_note(struct look *look, const struct move_insn *insn)
{
	bool is_sum = insn->decoded.mnemonic == ZYDIS_MNEMONIC_ADD &&
		      insn->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER;

	look->computed = is_sum ? insn->operands[0].reg.value : ZYDIS_REGISTER_NONE;
	look->is_large |= is_sum && look->has_number;
	look->has_number |= insn->decoded.raw.imm[0].size == 64;
}

static int function_look(struct look *look, uint64_t start)
{
	struct move_insn insn;
	int err;

	look->frame = frames_at(&look->sweep->frames, start);
	look->until = 0;
	look->computed = ZYDIS_REGISTER_NONE;
	look->has_number = look->is_large = false;
	if (cfi_find(&look->reader, look->sweep->image.frames_hdr, start, &look->cfi))
		return -WM_E_RETURN_FRAME;
	for (uint64_t at = start; at < look->frame->end; at += insn.decoded.length) {
		if (!insn_at(look, at, &insn) || ++look->insns > INSNS_MAX)
			return looked_at(look, "the code at %#lx can't be followed",
					 (unsigned long)at);
		err = branch_take(look, &insn);
		if (!err)
			err = frame_take(look, &insn);
		if (!err && insn.decoded.meta.category != ZYDIS_CATEGORY_RET)
			err = operands_take(look, &insn);
		if (err)
			return err;
		computed_note(look, &insn);
	}
	return 0;
}

int return_look(const struct sweep *sweep, uint64_t start, char *detail, size_t bytes)
{
	struct look look = { .sweep = sweep,
			     .reader = { image_reads, (void *)&sweep->image },
			     .starts = { start },
			     .count = 1,
			     .detail = detail,
			     .bytes = bytes };
	int err = sweep->image.frames_hdr ? 0 : -WM_E_RETURN_FRAME;

	for (size_t i = 0; !err && i < look.count; i++)
		err = function_look(&look, look.starts[i]);
	return err;
}
