/* SPDX-License-Identifier: MIT */
#include "target/code/block.h"

#include "base/opcode.h"

#include <Zydis/Zydis.h>
#include <cpuid.h>
#include <errno.h>
#include <string.h>

#define INT_OPCODE 0xcd
#define INT_LINUX32 0x80 /* int $0x80: the 32-bit system call */

static uint8_t kind_of(const ZydisDecodedInstruction *insn)
{
	if (insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return TRAIL_FALL;
	if (insn->opcode_map == ZYDIS_OPCODE_MAP_0F)
		return opcode_kind_0f(insn->opcode);
	if (insn->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return TRAIL_FALL;
	if (insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN)
		return TRAIL_BRANCH;
	if (insn->opcode == INT_OPCODE && insn->raw.imm[0].value.u == INT_LINUX32)
		return TRAIL_SYSCALL;
	return opcode_kind(insn->opcode, insn->raw.modrm.reg);
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
	case ZYDIS_MNEMONIC_CPUID:
	/* of a program that has the port; a string instruction may repeat */
	case ZYDIS_MNEMONIC_IN:
	case ZYDIS_MNEMONIC_OUT:
	case ZYDIS_MNEMONIC_PAUSE:
	case ZYDIS_MNEMONIC_RDPMC:
	case ZYDIS_MNEMONIC_RDPRU:
	case ZYDIS_MNEMONIC_RDRAND:
	case ZYDIS_MNEMONIC_RDSEED:
	case ZYDIS_MNEMONIC_RDTSC:
	case ZYDIS_MNEMONIC_RDTSCP:
	case ZYDIS_MNEMONIC_SGDT: /* from here to str: umip.c, on any machine with UMIP */
	case ZYDIS_MNEMONIC_SIDT:
	case ZYDIS_MNEMONIC_SLDT:
	case ZYDIS_MNEMONIC_SMSW:
	case ZYDIS_MNEMONIC_STR:
	case ZYDIS_MNEMONIC_TPAUSE:
	case ZYDIS_MNEMONIC_UMWAIT:
	case ZYDIS_MNEMONIC_VMCALL:
	case ZYDIS_MNEMONIC_VMMCALL:
		return INSN_EMULATED;
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
