/* SPDX-License-Identifier: MIT */
#include "target/code/prologue.h"

#define REGISTERS 16
#define RBP 6
#define RSP 7

/* By DWARF's numbers. */
static const ZydisRegister registers[REGISTERS] = {
	ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RCX, ZYDIS_REGISTER_RBX,
	ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_RSP,
	ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9,	ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11,
	ZYDIS_REGISTER_R12, ZYDIS_REGISTER_R13, ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15,
};

/* Returns REGISTERS for any other. */
static unsigned int number_of(ZydisRegister found)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, found);
	unsigned int number = 0;

	while (number < REGISTERS && registers[number] != whole)
		number++;
	return number;
}

static bool is_flags(ZydisRegister found)
{
	return ZydisRegisterGetClass(found) == ZYDIS_REGCLASS_FLAGS;
}

/* Whether its operands and flags are all that it changes. */
static bool is_known(const struct move_insn *insn)
{
	switch (insn->decoded.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_DEC:
	case ZYDIS_MNEMONIC_INC:
	case ZYDIS_MNEMONIC_LEA:
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVAPD:
	case ZYDIS_MNEMONIC_MOVAPS:
	case ZYDIS_MNEMONIC_MOVD:
	case ZYDIS_MNEMONIC_MOVQ:
	case ZYDIS_MNEMONIC_MOVSX:
	case ZYDIS_MNEMONIC_MOVSXD:
	case ZYDIS_MNEMONIC_MOVUPD:
	case ZYDIS_MNEMONIC_MOVUPS:
	case ZYDIS_MNEMONIC_MOVZX:
	case ZYDIS_MNEMONIC_NEG:
	case ZYDIS_MNEMONIC_NOT:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_SAR:
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_TEST:
	case ZYDIS_MNEMONIC_XOR:
		return !(insn->decoded.attributes & ZYDIS_ATTRIB_HAS_LOCK);
	default:
		return false;
	}
}

static bool writes(const ZydisDecodedOperand *operand)
{
	return operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
}

/*
 * Of the stack, below where the stack pointer was at the entry; of what is always there, if it is
 * but read.
 */
static bool memory_is_own(const struct prologue *prologue, const ZydisDecodedOperand *operand)
{
	int64_t from_entry = operand->mem.disp.value;

	if (operand->mem.type == ZYDIS_MEMOP_TYPE_AGEN)
		return true;
	if (operand->mem.index != ZYDIS_REGISTER_NONE)
		return false;
	if (operand->mem.segment == ZYDIS_REGISTER_FS)
		return operand->mem.base == ZYDIS_REGISTER_NONE && !writes(operand);
	if (operand->mem.base == ZYDIS_REGISTER_RIP)
		return !writes(operand);
	if (operand->mem.base == ZYDIS_REGISTER_RSP)
		from_entry -= prologue->stack_bytes;
	else if (operand->mem.base == ZYDIS_REGISTER_RBP && prologue->has_frame)
		from_entry -= prologue->frame_bytes;
	else
		return false;
	/* below the stack pointer the event's own code runs */
	return !writes(operand) || (from_entry >= -(int64_t)prologue->stack_bytes &&
				    from_entry + operand->size / 8 <= 0);
}

static bool operand_passes(const struct prologue *prologue, const ZydisDecodedOperand *operand)
{
	unsigned int number;

	switch (operand->type) {
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return true;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return memory_is_own(prologue, operand);
	case ZYDIS_OPERAND_TYPE_REGISTER:
		if (!writes(operand) || is_flags(operand->reg.value))
			return true;
		number = number_of(operand->reg.value);
		return number < REGISTERS && number != RSP && !(prologue->kept >> number & 1);
	default:
		return false;
	}
}

static bool is_register(const ZydisDecodedOperand *operand, unsigned int number)
{
	return operand->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operand->reg.value == registers[number];
}

/* Bytes by which it makes room on the stack: a push of a register, or a sub. 0: neither. */
static unsigned int room_of(const struct move_insn *insn)
{
	const ZydisDecodedOperand *operands = insn->operands;
	bool is_whole = insn->decoded.operand_width == 64;

	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_PUSH && is_whole &&
	    operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	    number_of(operands[0].reg.value) < REGISTERS && !is_register(&operands[0], RSP))
		return 8;
	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_SUB && is_register(&operands[0], RSP) &&
	    operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operands[1].imm.value.s > 0 &&
	    operands[1].imm.value.s <= PROLOGUE_STACK_MAX)
		return (unsigned int)operands[1].imm.value.s;
	return 0;
}

static void note_frame(struct prologue *prologue, const struct move_insn *insn)
{
	for (unsigned int i = 0; i < insn->decoded.operand_count; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && writes(operand) &&
		    number_of(operand->reg.value) == RBP)
			prologue->has_frame = false;
	}
	if (insn->decoded.mnemonic == ZYDIS_MNEMONIC_MOV && is_register(&insn->operands[0], RBP) &&
	    is_register(&insn->operands[1], RSP)) {
		prologue->has_frame = true;
		prologue->frame_bytes = prologue->stack_bytes;
	}
}

bool prologue_pass(struct prologue *prologue, const struct move_insn *insn)
{
	unsigned int room = room_of(insn);

	if (move_judge(insn) != MOVE_CAN)
		return false;
	if (room) {
		if (prologue->stack_bytes + room > prologue->room_max)
			return false;
	} else {
		if (!is_known(insn))
			return false;
		for (unsigned int i = 0; i < insn->decoded.operand_count; i++) {
			if (!operand_passes(prologue, &insn->operands[i]))
				return false;
		}
	}
	prologue->stack_bytes += room;
	note_frame(prologue, insn);
	return true;
}
