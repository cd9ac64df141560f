/* SPDX-License-Identifier: MIT */
#include "target/code/trampoline.h"

#include "target/code/emit.h"
#include "target/code/probe_place.h"
#include "target/code/return_look.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define JMP_NEAR 0xe9

/*
 * The code that packs a place's fields and calls the agent.
 */

/*
 * The most stack_bytes of a place whose return is wanted: the red zone protects these while the
 * agent is entered.
 */
#define PAYLOAD_RETURN_STACK_MAX 80

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

/*
 * Write the way in for the event. stack_bytes: from the stack pointer up to where it was at the
 * point; *up_words: as in struct control_detour. Returns 0, -EINVAL for a field that makes no
 * sense, -WM_E_FIELD_REACH.
 */
static int payload_emit(struct emit *emit, const struct code_place *place, unsigned int stack_bytes,
			uint8_t *up_words)
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
	*up_words = (uint8_t)(layout.down / 8);
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
/* Write the way in for the return. */
static void payload_emit_return(struct emit *emit, unsigned int stack_bytes)
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

static int refuse(struct trampoline *trampoline, int err, const char *detail)
{
	snprintf(trampoline->detail, sizeof(trampoline->detail), "%s", detail);
	return err;
}

/*
 * The agent replaces the word at the stack pointer: it must be the return address, for unwinders
 * too.
 */
static int return_check(struct trampoline *trampoline, const struct sweep *sweep,
			const struct code_place *place)
{
	const struct frame *frame = frames_at(&sweep->frames, place->address);

	int err;

	if (!place->is_entry || !frame || frame->start != place->address || !frame->is_plain)
		return refuse(trampoline, -WM_E_RETURN_FRAME, "");
	err = sweep_return_excluded(sweep, place->address);
	if (err)
		return refuse(trampoline, err, "");
	return return_look(sweep, place->address, trampoline->detail, sizeof(trampoline->detail));
}

static int event_emit(struct trampoline *trampoline, const struct code_place *place,
		      const struct span *span)
{
	static const uint8_t link[] = DETOUR_LINK;
	struct control_detour *detour = &trampoline->detour;
	int err = 0;

	if (detour->flags & DETOUR_GUARD_CALL) {
		EMIT(&trampoline->emit, 0xb8); /* mov $number, %eax */
		emit_bytes(&trampoline->emit, &trampoline->guarded_call,
			   sizeof(trampoline->guarded_call));
	}
	if (detour->flags & DETOUR_GUARDS) {
		EMIT(&trampoline->emit, 0xff, 0x25); /* jmp *enter(%rip) */
		emit_slot(&trampoline->emit, FIXUP_ENTER, 0);
		return 0;
	}
	if (!(detour->flags & DETOUR_SECRETIVE))
		err = payload_emit(&trampoline->emit, place, span->stack_bytes, &detour->up_words);
	if (!err && (detour->flags & DETOUR_RETURN))
		payload_emit_return(&trampoline->emit, span->stack_bytes);
	detour->link_at = trampoline->emit.bytes;
	emit_bytes(&trampoline->emit, link, sizeof(link));
	return err;
}

static int code_emit(struct trampoline *trampoline, const struct code_place *place,
		     const struct span *span)
{
	struct emit *emit = &trampoline->emit;
	int err = event_emit(trampoline, place, span);

	trampoline->detour.moved_at = emit->bytes;
	if (!err)
		move_emit(emit, &span->insn);
	if (!err && move_judge(&span->insn) == MOVE_CAN) {
		EMIT(emit, JMP_NEAR);
		emit_distance(emit, span->address + span->insn.decoded.length, 0);
	}
	return err ? err : emit_finish(emit);
}

static void returns_fill(struct control_detour *detour, const struct code_place *place)
{
	const struct code_field *returns = code_place_returns(place);
	unsigned int first = place->is_once ? place->field_count : 0;

	for (unsigned int i = 0; i < place->return_count && first + i < CODE_RETURNS_MAX; i++) {
		const struct code_operand *from = &returns[i].from;
		unsigned int base = from->kind == OPERAND_VECTOR  ? 16
				    : from->kind == OPERAND_ERRNO ? DETOUR_RETURN_ERRNO
								  : 0;

		detour->types[1][first + i] = returns[i].type;
		detour->return_at[first + i] = (uint8_t)(base + 8 * from->reg + from->displacement);
	}
	if (place->is_once) {
		memcpy(detour->types[1], detour->types[0], first);
		detour->types[1][first + place->return_count] = WM_TYPE_U64; /* the duration */
		if (place->callers)
			detour->types[1][first + place->return_count + 1] = WM_TYPE_ADDRESSES;
		detour->flags |= DETOUR_ONCE | (place->replaces ? DETOUR_REPLACE : 0) |
				 (place->is_void ? DETOUR_VOID : 0);
		return;
	}
	if (place->callers)
		detour->types[1][place->return_count] = WM_TYPE_ADDRESSES;
	if (place->return_count > 1 || detour->return_at[0] % 16)
		detour->flags |= DETOUR_RETURN_PARTS;
	else if (detour->return_at[0])
		detour->flags |= DETOUR_RETURN_FLOAT;
}

static void detour_fill(struct trampoline *trampoline, const struct sweep *sweep,
			const struct code_place *place, const struct span *span)
{
	struct control_detour *detour = &trampoline->detour;

	detour->insn_bytes = (uint8_t)span->bytes;
	detour->kept_bytes = (uint8_t)span->kept;
	detour->starts = span->starts;
	detour->stack_bytes = (uint16_t)span->stack_bytes;
	detour->address = span->address;
	detour->point = span->point;
	detour->semaphore = place->semaphore;
	image_read(&sweep->image, span->address, detour->original, detour->insn_bytes + span->kept);
	for (unsigned int i = 0; i < place->field_count && i < CODE_FIELDS_MAX; i++)
		detour->types[0][i] = place->fields[i].type;
	detour->callers = (uint8_t)place->callers;
	if (place->callers && !place->is_once)
		detour->types[0][place->field_count] = WM_TYPE_ADDRESSES;
	if (span->insn.decoded.meta.category == ZYDIS_CATEGORY_CALL)
		detour->flags |= DETOUR_CALL;
	if (place->is_entry)
		detour->flags |= DETOUR_ENTRY;
	if (place->is_safe)
		detour->flags |= DETOUR_SAFE;
	if (!place->wants_return)
		return;
	detour->flags |= DETOUR_RETURN;
	returns_fill(detour, place);
	if (!place->wants_entry)
		detour->flags |= DETOUR_SECRETIVE;
}

/* What an event needs as it is at the entry. */
static struct prologue entry_of(const struct code_place *place)
{
	struct prologue entry = {
		.kept = PROLOGUE_ARGUMENTS,
		.room_max = place->wants_return ? PAYLOAD_RETURN_STACK_MAX : PROLOGUE_STACK_MAX,
	};

	for (unsigned int i = 0; i < place->field_count && i < CODE_FIELDS_MAX; i++) {
		const struct code_operand *from = &place->fields[i].from;

		if (from->kind == OPERAND_REGISTER || from->kind == OPERAND_HIGH ||
		    from->kind == OPERAND_MEMORY)
			entry.kept |= from->reg < 16 ? 1u << from->reg : 0;
		if (from->kind == OPERAND_MEMORY)
			entry.kept |= from->index < 16 ? 1u << from->index : 0;
	}
	return entry;
}

/*
 * A guard takes the function's place: it must find all as at the entry. A handler may take it: then
 * the agent puts the stack pointer back, and no register.
 */
static int compose(struct trampoline *trampoline, const struct sweep *sweep,
		   const struct code_place *place, unsigned int number)
{
	struct control_detour *detour = &trampoline->detour;
	struct prologue entry = entry_of(place);
	struct span span;
	int err;

	if (detour->flags & DETOUR_GUARDS)
		entry = (struct prologue){ .kept = UINT32_MAX };
	if (place->replaces)
		entry.kept = UINT32_MAX;
	err = span_find(sweep, place->address, place->is_entry ? &entry : NULL, number, &span);

	if (err)
		return refuse(trampoline, err, span.detail);
	detour_fill(trampoline, sweep, place, &span);
	err = code_emit(trampoline, place, &span);
	if (err)
		return refuse(trampoline, err, "");
	detour->code_bytes = trampoline->emit.bytes;
	detour->fixup_count = trampoline->emit.fixup_count;
	return 0;
}

static void begin(struct trampoline *trampoline, unsigned int number)
{
	trampoline->detour = (struct control_detour){ .flags = number ? DETOUR_ELSE : 0 };
	trampoline->emit.bytes = trampoline->emit.fixup_count = trampoline->emit.slot_count = 0;
	trampoline->emit.err = 0;
	trampoline->detail[0] = '\0';
}

int trampoline_compose(const struct sweep *sweep, const struct code_place *place,
		       unsigned int number, struct trampoline *trampoline)
{
	int err;

	begin(trampoline, number);
	/* what holds for one choice holds for all */
	err = place->wants_return && !number ? return_check(trampoline, sweep, place) : 0;
	return err ? err : compose(trampoline, sweep, place, number);
}

int trampoline_compose_guard(const struct sweep *sweep, uint64_t function, uint64_t bytes,
			     uint32_t guard, uint32_t call, unsigned int number,
			     struct trampoline *trampoline)
{
	struct code_place place = { .address = function, .is_entry = 1 };

	begin(trampoline, number);
	if (bytes > UINT32_MAX)
		return refuse(trampoline, -WM_E_TRAP_GUARDS, "");
	trampoline->detour.flags |= guard;
	trampoline->detour.guard_bytes = (uint32_t)bytes;
	trampoline->guarded_call = call;
	return compose(trampoline, sweep, &place, number);
}

static size_t padded(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* Append the bytes at *at, pad with zeros, and move *at behind that. */
static void append(uint8_t **at, const void *from, size_t bytes)
{
	memcpy(*at, from, bytes);
	memset(*at + bytes, 0, padded(bytes) - bytes);
	*at += padded(bytes);
}

size_t trampoline_write(const struct trampoline *trampoline, uint64_t base, const char *text,
			const char *return_text, void *buffer, size_t room)
{
	struct control_detour detour = trampoline->detour;
	size_t text_bytes = strlen(text) + 1;
	size_t return_bytes = return_text ? strlen(return_text) + 1 : 0;
	size_t bytes = sizeof(detour) + padded(detour.code_bytes) +
		       detour.fixup_count * sizeof(struct detour_fixup) +
		       padded(text_bytes + return_bytes);
	uint8_t *at = buffer;

	if (bytes > room)
		return bytes;
	detour.bytes = (uint32_t)bytes;
	detour.address += base;
	detour.point += base;
	detour.semaphore += detour.semaphore ? base : 0;
	append(&at, &detour, sizeof(detour));
	append(&at, trampoline->emit.code, detour.code_bytes);
	for (unsigned int i = 0; i < detour.fixup_count; i++) {
		struct detour_fixup fixup = trampoline->emit.fixups[i];

		if (fixup.kind == FIXUP_REL32 || fixup.kind == FIXUP_ABS64)
			fixup.target += base;
		append(&at, &fixup, sizeof(fixup));
	}
	memcpy(at, text, text_bytes);
	if (return_text)
		memcpy(at + text_bytes, return_text, return_bytes);
	memset(at + text_bytes + return_bytes, 0,
	       padded(text_bytes + return_bytes) - text_bytes - return_bytes);
	return bytes;
}
