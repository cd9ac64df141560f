/* SPDX-License-Identifier: MIT */
#include "code/block.h"

#include <Zydis/Zydis.h>
#include <cpuid.h>
#include <errno.h>
#include <string.h>

#define INT_LINUX32 0x80 /* int $0x80: the 32-bit system call */
#define XBEGIN_MODRM 0xf8

/* One-byte opcodes: Intel SDM, volume 2, appendix A, table A-2. */
static uint8_t kind_of_plain(const ZydisDecodedInstruction *insn)
{
	uint8_t op = insn->opcode, reg = insn->raw.modrm.reg;

	if ((op >= 0x70 && op <= 0x7f) || (op >= 0xe0 && op <= 0xe3))
		return TRAIL_BRANCH;
	switch (op) {
	case 0xe8:
		return TRAIL_CALL;
	case 0xe9:
	case 0xeb:
		return TRAIL_JUMP;
	case 0xc2:
	case 0xc3:
		return TRAIL_RETURN;
	case 0xca:
	case 0xcb:
	case 0xcf:
		return TRAIL_FAR;
	case 0xcd:
		return insn->raw.imm[0].value.u == INT_LINUX32 ? TRAIL_SYSCALL : TRAIL_STOP;
	case 0xcc:
	case 0xf1:
	case 0xf4:
		return TRAIL_STOP;
	case 0xc7: /* xbegin shares it with a mov */
		return insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN ? TRAIL_BRANCH : TRAIL_FALL;
	case 0xff:
		if (reg == 2)
			return TRAIL_CALL_INDIRECT;
		if (reg == 4)
			return TRAIL_JUMP_INDIRECT;
		return reg == 3 || reg == 5 ? TRAIL_FAR : TRAIL_FALL;
	default:
		return TRAIL_FALL;
	}
}

/* Two-byte opcodes: table A-3. */
static uint8_t kind_of_0f(const ZydisDecodedInstruction *insn)
{
	uint8_t op = insn->opcode;

	if (op >= 0x80 && op <= 0x8f)
		return TRAIL_BRANCH;
	switch (op) {
	case 0x05:
	case 0x34:
		return TRAIL_SYSCALL;
	case 0x07:
	case 0x35:
		return TRAIL_FAR;
	case 0x0b:
	case 0xb9:
	case 0xff:
		return TRAIL_STOP;
	default:
		return TRAIL_FALL;
	}
}

static uint8_t kind_of(const ZydisDecodedInstruction *insn)
{
	if (insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return TRAIL_FALL;
	if (insn->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT)
		return kind_of_plain(insn);
	return insn->opcode_map == ZYDIS_OPCODE_MAP_0F ? kind_of_0f(insn) : TRAIL_FALL;
}

static uint8_t traits_of(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return INSN_PUSHES_FLAGS;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
		return INSN_POPS_FLAGS;
	case ZYDIS_MNEMONIC_INT1:
		return INSN_TRAPS;
	case ZYDIS_MNEMONIC_MOV:
		return insn->opcode == 0x8e && insn->raw.modrm.reg == 2 ? INSN_SHADOWS : 0;
	default:
		return 0;
	}
}

int block_insn_of(struct block_insn *insn, enum block_maker maker, uint64_t address,
		  const uint8_t *code, size_t left)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction decoded;

	if (ZYAN_FAILED(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_AMD_BRANCHES,
					       maker == BLOCK_AMD)) ||
	    ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder, NULL, code, left, &decoded)))
		return -EILSEQ;
	*insn = (struct block_insn){
		.bytes = decoded.length,
		.kind = kind_of(&decoded),
		.repeats = !!(decoded.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE |
						    ZYDIS_ATTRIB_HAS_REPNE)),
		.traits = traits_of(&decoded),
	};
	if (insn->kind == TRAIL_JUMP || insn->kind == TRAIL_BRANCH || insn->kind == TRAIL_CALL)
		insn->target = address + decoded.length + (uint64_t)decoded.raw.imm[0].value.s;
	if (maker == BLOCK_AMD && decoded.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE &&
	    !decoded.raw.rex.W)
		insn->target &= 0xffff;
	return 0;
}

int block_insn(struct block_insn *insn, uint64_t address, const uint8_t *code, size_t left)
{
	return block_insn_of(insn, BLOCK_INTEL, address, code, left);
}

enum block_maker block_maker_here(void)
{
	unsigned int top, name[3] = { 0 };

	if (__get_cpuid(0, &top, &name[0], &name[2], &name[1]) &&
	    (!memcmp(name, "AuthenticAMD", sizeof(name)) ||
	     !memcmp(name, "HygonGenuine", sizeof(name))))
		return BLOCK_AMD;
	return BLOCK_INTEL;
}

int block_read(struct trail_entry *entry, uint64_t start, const uint8_t *code, size_t left,
	       unsigned int most)
{
	*entry = (struct trail_entry){ .start = start };
	if (most > TRAIL_BLOCK_INSTRUCTIONS_MAX)
		most = TRAIL_BLOCK_INSTRUCTIONS_MAX;
	while (entry->instructions < most && entry->kind == TRAIL_FALL) {
		struct block_insn insn;
		uint64_t at = start + entry->bytes;

		if (block_insn(&insn, at, code + entry->bytes, left - entry->bytes))
			break;
		entry->last = entry->bytes;
		entry->bytes = (uint16_t)(entry->bytes + insn.bytes);
		entry->instructions++;
		entry->kind = insn.kind;
		entry->target = insn.target;
	}
	return entry->instructions ? 0 : -EILSEQ;
}

int block_cut_add(struct block_cut *cut, uint64_t address, const uint8_t *code,
		  const struct block_insn *insn)
{
	struct trail_entry *entry = &cut->entry;

	if (!entry->instructions)
		entry->start = address;
	memcpy(cut->code + entry->bytes, code, insn->bytes);
	entry->last = entry->bytes;
	entry->bytes = (uint16_t)(entry->bytes + insn->bytes);
	entry->instructions++;
	entry->kind = insn->kind;
	entry->target = insn->target;
	return insn->kind != TRAIL_FALL || entry->instructions == TRAIL_BLOCK_INSTRUCTIONS_MAX;
}
