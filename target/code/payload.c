/* SPDX-License-Identifier: MIT */
#include "target/code/payload.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define RED_ZONE_BYTES 128
#define REX 0x40
#define REX_W 0x08
#define REX_R 0x04
#define REX_X 0x02
#define REX_B 0x01

/* The processor's numbers of registers. */
enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

/* By DWARF's numbers. */
static const uint8_t machine_register[16] = { RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP,
					      8,   9,	10,  11,  12,  13,  14,	 15 };

struct layout {
	struct emit *emit;
	int32_t payload_bytes; /* rounded up to 8; right above are %rax, then the flags */
	int32_t down;	       /* from the program's stack pointer to the payload */
	int32_t point;	       /* from where that was at the point */
	bool rax_is_used;
};

static uint8_t machine(uint8_t reg)
{
	return machine_register[reg & 15];
}

/* REX, opcode and operands of an instruction between `reg` and offset(%rsp). */
static void stack_emit(struct emit *emit, uint8_t prefix, unsigned int rex, const uint8_t *opcode,
		       size_t opcode_bytes, uint8_t reg, int32_t offset)
{
	if (prefix)
		EMIT(emit, prefix);
	rex |= reg >= 8 ? REX_R : 0;
	if (rex)
		EMIT(emit, (uint8_t)(REX | rex));
	emit_bytes(emit, opcode, opcode_bytes);
	if (offset >= -128 && offset < 128) {
		EMIT(emit, (uint8_t)(0x44 | (reg & 7) << 3), 0x24, (uint8_t)offset);
	} else {
		EMIT(emit, (uint8_t)(0x84 | (reg & 7) << 3), 0x24);
		emit_number(emit, (uint32_t)offset, 4);
	}
}

static void store_emit(struct emit *emit, uint8_t reg, unsigned int bytes, int32_t offset)
{
	unsigned int rex = bytes == 8 ? REX_W : 0;

	/* without REX, byte registers 4 to 7 are %ah and its like */
	if (bytes == 1 && reg >= RSP)
		rex |= REX;
	stack_emit(emit, bytes == 2 ? 0x66 : 0, rex, (const uint8_t[]){ bytes == 1 ? 0x88 : 0x89 },
		   1, reg, offset);
}

static void rax_load_part(struct emit *emit, unsigned int bytes, int32_t offset)
{
	stack_emit(emit, bytes == 2 ? 0x66 : 0, bytes == 8 ? REX_W : 0,
		   (const uint8_t[]){ bytes == 1 ? 0x8a : 0x8b }, 1, RAX, offset);
}

static void rax_load(struct emit *emit, int32_t offset)
{
	rax_load_part(emit, 8, offset);
}

static void stack_move(struct emit *emit, int32_t distance)
{
	if (distance)
		stack_emit(emit, 0, REX_W, (const uint8_t[]){ 0x8d }, 1, RSP, distance);
}

static void vector_emit(struct emit *emit, uint8_t reg, unsigned int bytes, int32_t offset)
{
	stack_emit(emit, bytes == 8 ? 0xf2 : 0xf3, 0, (const uint8_t[]){ 0x0f, 0x11 }, 2, reg,
		   offset);
}

static void constant_emit(struct emit *emit, int64_t value, unsigned int bytes, int32_t offset)
{
	if (bytes == 8 && value != (int32_t)value) {
		constant_emit(emit, (int32_t)value, 4, offset);
		constant_emit(emit, (int32_t)(value >> 32), 4, offset + 4);
		return;
	}
	stack_emit(emit, bytes == 2 ? 0x66 : 0, bytes == 8 ? REX_W : 0,
		   (const uint8_t[]){ bytes == 1 ? 0xc6 : 0xc7 }, 1, 0, offset);
	emit_number(emit, (uint64_t)value, bytes == 8 ? 4 : bytes);
}

/* The start of a load of `bytes` into %rax, up to its ModRM. */
static void load_open(struct emit *emit, unsigned int bytes, unsigned int rex)
{
	rex |= bytes == 8 ? REX_W : 0;
	if (bytes == 2)
		EMIT(emit, 0x66);
	if (rex)
		EMIT(emit, (uint8_t)(REX | rex));
	EMIT(emit, bytes == 1 ? 0x8a : 0x8b);
}

/* base + index * scale + displacement, all of them general; 32 bits of displacement always. */
static void memory_load(struct layout *layout, const struct code_operand *from, int32_t shift)
{
	static const uint8_t scale_bits[9] = { [2] = 1 << 6, [4] = 2 << 6, [8] = 3 << 6 };
	struct emit *emit = layout->emit;
	bool has_base = from->reg != OPERAND_NONE, has_index = from->index != OPERAND_NONE;
	uint8_t base = has_base ? machine(from->reg) : RBP;
	uint8_t index = has_index ? machine(from->index) : RSP;

	load_open(emit, from->bytes, (base >= 8 ? REX_B : 0) | (index >= 8 ? REX_X : 0));
	/* a SIB byte each time; no base: mod 0 and base 5 */
	EMIT(emit, has_base ? 0x84 : 0x04,
	     (uint8_t)(scale_bits[has_index ? from->scale : 1] | (index & 7) << 3 | (base & 7)));
	emit_number(emit, (uint32_t)(from->displacement + shift), 4);
}

static int memory_check(const struct layout *layout, const struct code_operand *from)
{
	int64_t far = from->displacement;

	if ((from->reg != OPERAND_NONE && from->reg > 15) ||
	    (from->index != OPERAND_NONE && (from->index > 15 || machine(from->index) == RSP)) ||
	    (from->index != OPERAND_NONE && from->scale != 1 && from->scale != 2 &&
	     from->scale != 4 && from->scale != 8))
		return -EINVAL;
	if (far < INT32_MIN || far > INT32_MAX - layout->point)
		return -WM_E_FIELD_REACH;
	return 0;
}

/* Part of a register, above its lowest bytes. */
static bool is_upper(const struct code_operand *from)
{
	return (from->kind == OPERAND_REGISTER || from->kind == OPERAND_VECTOR) &&
	       from->displacement;
}

/* Fields that come through %rax. */
static int field_load(struct layout *layout, const struct code_operand *from, int32_t offset)
{
	struct emit *emit = layout->emit;
	int err;

	switch (from->kind) {
	case OPERAND_REGISTER:
	case OPERAND_VECTOR:
		/* by way of the red zone, which no signal handler writes to */
		if (is_upper(from)) {
			if (from->kind == OPERAND_VECTOR)
				vector_emit(emit, from->reg, 8, -8);
			else
				store_emit(emit, machine(from->reg), 8, -8);
			rax_load_part(emit, from->bytes, -8 + (int32_t)from->displacement);
			break;
		}
		/* the stack pointer as it was */
		stack_emit(emit, 0, REX_W, (const uint8_t[]){ 0x8d }, 1, RAX, layout->point);
		break;
	case OPERAND_ADDRESS:
		load_open(emit, from->bytes, 0);
		EMIT(emit, 0x05);
		emit_distance(emit, (uint64_t)from->displacement, 0);
		break;
	default:
		err = memory_check(layout, from);
		if (err)
			return err;
		if (layout->rax_is_used && (from->reg == 0 || from->index == 0))
			rax_load(emit, layout->payload_bytes);
		memory_load(layout, from,
			    from->reg != OPERAND_NONE && machine(from->reg) == RSP ? layout->point
										   : 0);
	}
	layout->rax_is_used = true;
	store_emit(emit, RAX, from->bytes, offset);
	return 0;
}

static bool is_loaded(const struct code_operand *from)
{
	return from->kind == OPERAND_MEMORY || from->kind == OPERAND_ADDRESS || is_upper(from) ||
	       (from->kind == OPERAND_REGISTER && machine(from->reg) == RSP);
}

/* Fields that need no register but their own. */
static void field_store(struct emit *emit, const struct code_operand *from, int32_t offset)
{
	switch (from->kind) {
	case OPERAND_REGISTER:
		store_emit(emit, machine(from->reg), from->bytes, offset);
		break;
	case OPERAND_HIGH:
		/* %ah is number 4 */
		stack_emit(emit, 0, 0, (const uint8_t[]){ 0x88 }, 1, machine(from->reg) + 4,
			   offset);
		break;
	case OPERAND_VECTOR:
		vector_emit(emit, from->reg, from->bytes, offset);
		break;
	case OPERAND_CONSTANT:
		constant_emit(emit, from->displacement, from->bytes, offset);
	}
}

static int field_check(const struct code_operand *from)
{
	bool is_width = from->bytes == 1 || from->bytes == 2 || from->bytes == 4 ||
			from->bytes == 8;

	switch (from->kind) {
	case OPERAND_REGISTER:
		return is_width && from->reg < 16 ? 0 : -EINVAL;
	case OPERAND_HIGH:
		return from->bytes == 1 && from->reg < 4 ? 0 : -EINVAL;
	case OPERAND_VECTOR:
		return (from->bytes == 4 || from->bytes == 8) && from->reg < 16 ? 0 : -EINVAL;
	case OPERAND_MEMORY:
	case OPERAND_ADDRESS:
	case OPERAND_CONSTANT:
		return is_width ? 0 : -EINVAL;
	}
	return -EINVAL;
}

static int fields_emit(struct layout *layout, const struct code_place *place)
{
	/* %rax is overwritten by the second round */
	for (int round = 0; round < 2; round++) {
		int32_t offset = 0;

		for (unsigned int i = 0; i < place->field_count; i++) {
			const struct code_operand *from = &place->fields[i].from;
			int err = 0;

			if (!is_loaded(from) && round == 0)
				field_store(layout->emit, from, offset);
			else if (is_loaded(from) && round == 1)
				err = field_load(layout, from, offset);
			if (err)
				return err;
			offset += from->bytes;
		}
	}
	return 0;
}

/*
 * pushfq, and what C code can't bear cleared. An alignment check would fault: the payload is
 * packed, and what a field is loaded from may be anywhere.
 */
static void flags_push(struct emit *emit)
{
	EMIT(emit, 0x9c);				      /* pushfq */
	EMIT(emit, 0xf7, 0x04, 0x24, 0x00, 0x04, 0x04, 0x00); /* testl $DF | AC, (%rsp) */
	EMIT(emit, 0x74, 0x09);				      /* jz 1f */
	EMIT(emit, 0x9c);				      /* pushfq */
	EMIT(emit, 0x81, 0x24, 0x24, 0xff, 0xfb, 0xfb, 0xff); /* andl $~(DF | AC), (%rsp) */
	EMIT(emit, 0x9d);				      /* popfq; 1: */
}

/* The flags are in %rax. A popfq takes five times as long as all that follows it. */
static void flags_restore(struct emit *emit)
{
	EMIT(emit, 0xa9, 0x00, 0x04, 0x04, 0x00); /* test $DF | AC, %eax */
	EMIT(emit, 0x74, 0x02);			  /* jz 1f */
	EMIT(emit, 0x50, 0x9d);			  /* push %rax; popfq */
	EMIT(emit, 0x86, 0xe0);			  /* 1: xchg %al, %ah */
	EMIT(emit, 0x24, 0x08, 0x04, 0x78); /* and $8, %al; add $120, %al: the overflow flag */
	EMIT(emit, 0x9e);		    /* sahf: the others */
}

int payload_emit(struct emit *emit, const struct code_place *place, unsigned int stack_bytes)
{
	int32_t red_zone = place->is_entry ? 0 : RED_ZONE_BYTES;
	struct layout layout = { .emit = emit };
	int err;

	if (place->field_count > CODE_FIELDS_MAX)
		return -EINVAL;
	for (unsigned int i = 0; i < place->field_count; i++) {
		err = field_check(&place->fields[i].from);
		if (err)
			return err;
		layout.payload_bytes += place->fields[i].from.bytes;
	}
	layout.payload_bytes = (layout.payload_bytes + 7) & ~7;
	layout.down = layout.payload_bytes + 16 + red_zone;
	layout.point = layout.down + (int32_t)stack_bytes;
	stack_move(emit, -red_zone);
	flags_push(emit);
	stack_move(emit, -layout.payload_bytes - 8);
	store_emit(emit, RAX, 8, layout.payload_bytes);
	err = fields_emit(&layout, place);
	if (err)
		return err;
	EMIT(emit, 0x54, 0xff, 0x35); /* push %rsp; push word(%rip) */
	emit_slot(emit, FIXUP_WORD, 0);
	EMIT(emit, 0xff, 0x15); /* call *enter(%rip) */
	emit_slot(emit, FIXUP_ENTER, 0);
	rax_load(emit, layout.payload_bytes + 24);
	flags_restore(emit);
	rax_load(emit, layout.payload_bytes + 16);
	stack_move(emit, layout.down + 16);
	return 0;
}

/*
 * The agent writes two words right below the return address, and continues with the stack pointer
 * there. The function may have saved registers in these words. So the trampoline copies them
 * further down before, and back afterwards:
 *
 *	push  stack_bytes-8(%rsp)	 twice: the two words
 *	push  %rsp ...			 the agent adds stack_bytes and the copies
 *	lea   stack_bytes+40(%rsp), %rsp
 *	notrack jmp *-24(%rsp)
 *	lea   -stack_bytes-16(%rsp), %rsp
 *	pop   stack_bytes-8(%rsp)	 twice
 */
void payload_emit_return(struct emit *emit, unsigned int stack_bytes)
{
	uint8_t saved = stack_bytes ? DETOUR_SAVED_BYTES : 0, down = (uint8_t)(stack_bytes + saved);

	for (unsigned int i = 0; i < saved; i += 8)
		EMIT(emit, 0xff, 0x74, 0x24, (uint8_t)(stack_bytes - 8));
	EMIT(emit, 0x54, 0xff, 0x35);
	emit_slot(emit, FIXUP_RETURN_WORD, 0);
	EMIT(emit, 0xff, 0x15);
	emit_slot(emit, FIXUP_RETURN_ENTER, 0);
	EMIT(emit, 0x48, 0x8d, 0x64, 0x24, (uint8_t)(24 + down)); /* lea 24+down(%rsp), %rsp */
	EMIT(emit, 0x3e, 0xff, 0x64, 0x24, 0xe8);		  /* notrack jmp *-24(%rsp) */
	if (down)
		EMIT(emit, 0x48, 0x8d, 0x64, 0x24, (uint8_t)-down);
	for (unsigned int i = 0; i < saved; i += 8)
		EMIT(emit, 0x8f, 0x44, 0x24, (uint8_t)(stack_bytes - 8));
}
