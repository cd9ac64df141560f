/* SPDX-License-Identifier: MIT */
#include "target/code/move.h"

#include <string.h>

#define JMP_NEAR 0xe9

bool move_decode(struct move_insn *insn, uint64_t address, const uint8_t *bytes, size_t left)
{
	ZydisDecoder decoder;

	insn->address = address;
	insn->bytes = bytes;
	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, left, &insn->decoded,
						   insn->operands));
}

/* Its memory operand is an address relative to the next instruction. */
static bool is_relative_memory(const struct move_insn *insn)
{
	return (insn->decoded.attributes & ZYDIS_ATTRIB_HAS_MODRM) &&
	       insn->decoded.raw.modrm.mod == 0 && insn->decoded.raw.modrm.rm == 5;
}

static bool uses_register(const struct move_insn *insn, ZydisRegister reg)
{
	for (int i = 0; i < insn->decoded.operand_count_visible; i++) {
		const ZydisDecodedOperand *operand = &insn->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER && operand->reg.value == reg)
			return true;
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (operand->mem.base == reg || operand->mem.index == reg))
			return true;
	}
	return false;
}

/* Branches of 16 bits exist on AMD's processors, and are something else on Intel's. */
static bool is_narrow_branch(const struct move_insn *insn)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;
	bool wide = false;

	for (int i = 0; i < decoded->raw.prefix_count; i++)
		if ((decoded->raw.prefixes[i].value & 0xf8) == 0x48)
			wide = true;
	return (decoded->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) && !wide;
}

static enum move_verdict branch_judge(const struct move_insn *insn)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;

	/* far ones, and those that switch to another thing than an address */
	if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ||
	    decoded->mnemonic == ZYDIS_MNEMONIC_XBEGIN ||
	    decoded->mnemonic == ZYDIS_MNEMONIC_XABORT || is_narrow_branch(insn))
		return MOVE_CANT;
	switch (decoded->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return decoded->raw.imm[0].is_relative ? MOVE_CAN : MOVE_CANT;
	case ZYDIS_CATEGORY_CALL:
		/* it would find the stack pointer changed by the push */
		return uses_register(insn, ZYDIS_REGISTER_RSP) ? MOVE_CANT : MOVE_LAST;
	default:
		return MOVE_LAST;
	}
}

enum move_verdict move_judge(const struct move_insn *insn)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;

	if (is_relative_memory(insn) && decoded->address_width != 64)
		return MOVE_CANT;
	switch (decoded->meta.category) {
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
		return branch_judge(insn);
	case ZYDIS_CATEGORY_RET:
		return decoded->mnemonic == ZYDIS_MNEMONIC_RET &&
				       decoded->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR
			       ? MOVE_LAST
			       : MOVE_CANT;
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSTEM:
		return MOVE_CANT;
	default:
		break;
	}
	switch (decoded->mnemonic) {
	case ZYDIS_MNEMONIC_ENDBR64: /* who is sent here must find it here */
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XABORT:
		return MOVE_CANT;
	default:
		break;
	}
	/* anything else that is relative to its own address */
	if (decoded->raw.imm[0].is_relative)
		return MOVE_CANT;
	return MOVE_CAN;
}

bool move_is_filler(const struct move_insn *insn)
{
	return insn->decoded.mnemonic == ZYDIS_MNEMONIC_NOP;
}

static uint64_t insn_next(const struct move_insn *insn)
{
	return insn->address + insn->decoded.length;
}

static void conditional_emit(struct emit *emit, const struct move_insn *insn, uint64_t target)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;
	uint8_t opcode = decoded->opcode;

	if (decoded->opcode_map == ZYDIS_OPCODE_MAP_0F || (opcode & 0xf0) == 0x70) {
		EMIT(emit, 0x0f, 0x80 | (opcode & 0x0f));
		emit_distance(emit, target, 0);
		return;
	}
	/* loop, jrcxz: there is no long form. To the jump, or over it */
	if (decoded->attributes & ZYDIS_ATTRIB_HAS_ADDRESSSIZE)
		EMIT(emit, 0x67);
	EMIT(emit, opcode, 2, 0xeb, 5, JMP_NEAR);
	emit_distance(emit, target, 0);
}

/* Emit the same bytes, except for a relative displacement. `modrm`: in place of its own, or -1. */
static void copy_emit(struct emit *emit, const struct move_insn *insn, int modrm)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;
	uint8_t bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
	unsigned int behind;

	memcpy(bytes, insn->bytes, decoded->length);
	if (modrm >= 0)
		bytes[decoded->raw.modrm.offset] = (uint8_t)modrm;
	if (!is_relative_memory(insn)) {
		emit_bytes(emit, bytes, decoded->length);
		return;
	}
	behind = decoded->raw.disp.offset + 4u;
	emit_bytes(emit, bytes, decoded->raw.disp.offset);
	emit_distance(emit, insn_next(insn) + (uint64_t)decoded->raw.disp.value,
		      decoded->length - behind);
	emit_bytes(emit, bytes + behind, decoded->length - behind);
}

static void call_emit(struct emit *emit, const struct move_insn *insn)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;

	EMIT(emit, 0xff, 0x35); /* push slot(%rip) */
	emit_slot(emit, FIXUP_ABS64, insn_next(insn));
	if (decoded->raw.imm[0].is_relative) {
		EMIT(emit, JMP_NEAR);
		emit_distance(emit, insn_next(insn) + (uint64_t)decoded->raw.imm[0].value.s, 0);
		return;
	}
	/* FF /2 -> FF /4 */
	copy_emit(emit, insn, decoded->raw.modrm.mod << 6 | 4 << 3 | decoded->raw.modrm.rm);
}

void move_emit(struct emit *emit, const struct move_insn *insn)
{
	const ZydisDecodedInstruction *decoded = &insn->decoded;
	uint64_t target = insn_next(insn) + (uint64_t)decoded->raw.imm[0].value.s;

	if (move_is_filler(insn))
		return;
	if (decoded->meta.category == ZYDIS_CATEGORY_CALL) {
		call_emit(emit, insn);
	} else if (decoded->meta.category == ZYDIS_CATEGORY_COND_BR) {
		conditional_emit(emit, insn, target);
	} else if (decoded->raw.imm[0].is_relative) {
		EMIT(emit, JMP_NEAR);
		emit_distance(emit, target, 0);
	} else {
		copy_emit(emit, insn, -1);
	}
}
