/* SPDX-License-Identifier: MIT */
/*
 * Write the tables of insn_tables.h, to standard output: by asking libzydis about every opcode in every context.
 *
 * Each is composed here field by field, so that what the fields do can be told by changing one: is it still an
 * instruction, as long, and the same in all that counts?
 *
 * Left out: what only the first Xeon Phi had (MVEX, jkzd and others by VEX). libzydis takes it for valid; elsewhere it raises #UD.
 */
#include "agent/trail/insn.h"
#include "agent/trail/insn_tables.h"

#include <Zydis/Zydis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX (INSN_INDEX + 1)
#define LEAVES_MAX 4096
#define VALID_MAX 256
#define POINTS 72 /* what INSN_BY_REG_RM tells apart */
#define SIX_FLAGS                                                                                  \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |               \
	 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)
#define XBEGIN_OPCODE 0xc7
#define INT_LINUX32 0x80

static ZydisDecoder decoder;
static uint16_t roots[INSN_SPACES][256];
static uint16_t nodes[NODES_MAX];
static size_t node_count = 1;
static struct insn_leaf leaves[LEAVES_MAX];
static size_t leaf_count = 1;
static uint32_t valid[VALID_MAX];
static size_t valid_count = 1;

/* An instruction to be, by its fields. Bits as they count, not as VEX and EVEX invert them. */
struct form {
	uint8_t space, opcode;
	uint8_t w, p66, repeat, pp, l;
	uint8_t b, z, aaa; /* EVEX's */
	uint8_t r, x, b3, r2, v2, v;
	uint8_t mod, reg, rm, index;
	uint8_t lock, p67;
	uint8_t has_modrm;
};

/* What became of it. */
struct answer {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint8_t head; /* bytes up to the immediate */
};

static _Noreturn void fail(const char *what, const struct form *form)
{
	fprintf(stderr, "insn_tables_make: %s: space %d opcode %02x\n", what, form->space,
		form->opcode);
	exit(1);
}

static uint8_t *put_legacy(uint8_t *at, const struct form *form)
{
	uint8_t rex = (uint8_t)(form->w << 3 | form->r << 2 | form->x << 1 | form->b3);

	if (form->p66)
		*at++ = 0x66;
	if (form->repeat)
		*at++ = form->repeat == 1 ? 0xf3 : 0xf2;
	if (rex)
		*at++ = 0x40 | rex;
	if (form->space != INSN_PLAIN)
		*at++ = 0x0f;
	if (form->space == INSN_0F38)
		*at++ = 0x38;
	if (form->space == INSN_0F3A)
		*at++ = 0x3a;
	*at++ = form->space == INSN_3DNOW ? 0x0f : form->opcode;
	return at;
}

static uint8_t *put_vex(uint8_t *at, const struct form *form)
{
	int is_xop = form->space >= INSN_XOP;
	int map = is_xop ? form->space - INSN_XOP + 8 : form->space - INSN_VEX + 1;

	*at++ = is_xop ? 0x8f : 0xc4;
	*at++ = (uint8_t)(!form->r << 7 | !form->x << 6 | !form->b3 << 5 | map);
	*at++ = (uint8_t)(form->w << 7 | (~form->v & 15) << 3 | form->l << 2 | form->pp);
	*at++ = form->opcode;
	return at;
}

static uint8_t *put_evex(uint8_t *at, const struct form *form)
{
	*at++ = 0x62;
	*at++ = (uint8_t)(!form->r << 7 | !form->x << 6 | !form->b3 << 5 | !form->r2 << 4 |
			  (form->space - INSN_EVEX + 1));
	*at++ = (uint8_t)(form->w << 7 | (~form->v & 15) << 3 | 4 | form->pp);
	*at++ = (uint8_t)(form->z << 7 | form->l << 5 | form->b << 4 | !form->v2 << 3 | form->aaa);
	*at++ = form->opcode;
	return at;
}

static uint8_t *put_modrm(uint8_t *at, const struct form *form)
{
	int bytes = form->mod == 1					  ? 1
		    : form->mod == 2 || (form->mod == 0 && form->rm == 5) ? 4
									  : 0;

	*at++ = (uint8_t)(form->mod << 6 | form->reg << 3 | form->rm);
	if (form->mod != 3 && form->rm == 4)
		*at++ = (uint8_t)(form->index << 3);
	return at + bytes;
}

static int is_knights_corner(const ZydisDecodedInstruction *insn)
{
	switch (insn->meta.isa_set) {
	case ZYDIS_ISA_SET_KNCE:
	case ZYDIS_ISA_SET_KNCJKBR:
	case ZYDIS_ISA_SET_KNCSTREAM:
	case ZYDIS_ISA_SET_KNCV:
	case ZYDIS_ISA_SET_KNC_MISC:
	case ZYDIS_ISA_SET_KNC_PF_HINT:
		return 1;
	default:
		return 0;
	}
}

/* 0: an instruction. */
static int ask(struct answer *answer, const struct form *form)
{
	uint8_t code[32] = { 0 }, *at = code;

	if (form->lock)
		*at++ = 0xf0;
	if (form->p67)
		*at++ = 0x67;
	at = form->space >= INSN_EVEX  ? put_evex(at, form)
	     : form->space >= INSN_VEX ? put_vex(at, form)
				       : put_legacy(at, form);
	if (form->has_modrm)
		at = put_modrm(at, form);
	answer->head = (uint8_t)(at - code);
	if (form->space == INSN_3DNOW)
		*at = form->opcode;
	return ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, code, sizeof(code), &answer->insn,
						  answer->operands)) ||
	       is_knights_corner(&answer->insn);
}

static int is_asked(const struct form *form)
{
	struct answer answer;

	return !ask(&answer, form);
}

/* One-byte opcodes: Intel SDM, volume 2, appendix A, table A-2. */
static uint8_t kind_of_plain(const struct form *form, const ZydisDecodedInstruction *insn)
{
	uint8_t op = form->opcode;

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
	case 0xcc:
	case 0xcd: /* but int $0x80: INSN_RULE_INT */
	case 0xf1:
	case 0xf4:
		return TRAIL_STOP;
	case XBEGIN_OPCODE: /* a mov, too */
		return insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN ? TRAIL_BRANCH : TRAIL_FALL;
	case 0xff:
		if (form->reg == 2)
			return TRAIL_CALL_INDIRECT;
		if (form->reg == 4)
			return TRAIL_JUMP_INDIRECT;
		return form->reg == 3 || form->reg == 5 ? TRAIL_FAR : TRAIL_FALL;
	default:
		return TRAIL_FALL;
	}
}

/* Two-byte opcodes: table A-3. */
static uint8_t kind_of_0f(uint8_t op)
{
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

static uint8_t kind_of(const struct form *form, const ZydisDecodedInstruction *insn)
{
	if (form->space == INSN_PLAIN)
		return kind_of_plain(form, insn);
	return form->space == INSN_0F ? kind_of_0f(form->opcode) : TRAIL_FALL;
}

static uint16_t traits_of_mnemonic(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_FXSAVE:
	case ZYDIS_MNEMONIC_FXSAVE64:
	case ZYDIS_MNEMONIC_XSAVE:
	case ZYDIS_MNEMONIC_XSAVE64:
	case ZYDIS_MNEMONIC_XSAVEC:
	case ZYDIS_MNEMONIC_XSAVEC64:
	case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64:
	case ZYDIS_MNEMONIC_XSAVES:
	case ZYDIS_MNEMONIC_XSAVES64:
		return INSN_VECTORS | INSN_TELLS_IP;
	case ZYDIS_MNEMONIC_FXRSTOR:
	case ZYDIS_MNEMONIC_FXRSTOR64:
	case ZYDIS_MNEMONIC_XRSTOR:
	case ZYDIS_MNEMONIC_XRSTOR64:
	case ZYDIS_MNEMONIC_XRSTORS:
	case ZYDIS_MNEMONIC_XRSTORS64:
	case ZYDIS_MNEMONIC_VZEROALL:
		return INSN_VECTORS;
	case ZYDIS_MNEMONIC_VZEROUPPER:
		return INSN_ZEROUPPER;
	case ZYDIS_MNEMONIC_FNSTENV:
	case ZYDIS_MNEMONIC_FNSAVE:
		return INSN_TELLS_IP;
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE:
	case ZYDIS_MNEMONIC_SWAPGS:
		return INSN_GS;
	case ZYDIS_MNEMONIC_LOOP:
	case ZYDIS_MNEMONIC_LOOPE:
	case ZYDIS_MNEMONIC_LOOPNE:
	case ZYDIS_MNEMONIC_JCXZ:
	case ZYDIS_MNEMONIC_JECXZ:
	case ZYDIS_MNEMONIC_JRCXZ:
		return INSN_SHORT;
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XEND:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_XTEST:
		return INSN_TRANSACTION;
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return INSN_PUSHES_FLAGS | INSN_READS_FLAGS;
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
		return INSN_POPS_FLAGS;
	case ZYDIS_MNEMONIC_STD:
	case ZYDIS_MNEMONIC_CLD:
		return INSN_DIRECTION;
	default:
		return 0;
	}
}

#define REPEATED (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)

/* Does it leave the flags as they were if its count is 0? */
static int may_leave_flags(const ZydisDecodedInstruction *insn)
{
	if (insn->attributes & REPEATED)
		return 1;
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SAR:
		return insn->opcode == 0xd2 || insn->opcode == 0xd3;
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD:
		return insn->opcode == 0xa5 || insn->opcode == 0xad;
	/* Intel's manual of some years has them leave OF, SF and AF alone. */
	case ZYDIS_MNEMONIC_FCOMI:
	case ZYDIS_MNEMONIC_FCOMIP:
	case ZYDIS_MNEMONIC_FUCOMI:
	case ZYDIS_MNEMONIC_FUCOMIP:
		return 1;
	default:
		return 0;
	}
}

static int is_counted(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SAR:
		return insn->opcode == 0xc0 || insn->opcode == 0xc1;
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD:
		return insn->opcode == 0xa4 || insn->opcode == 0xac;
	default:
		return 0;
	}
}

static uint16_t flag_traits(const ZydisDecodedInstruction *insn)
{
	const ZydisAccessedFlags *flags = insn->cpu_flags;
	uint32_t changed;
	uint16_t traits;

	if (!flags)
		return 0;
	changed = (flags->modified | flags->set_0 | flags->set_1 | flags->undefined) & SIX_FLAGS;
	traits = flags->tested & SIX_FLAGS ? INSN_READS_FLAGS : 0;
	if (!changed)
		return traits;
	return traits | (changed == SIX_FLAGS && !may_leave_flags(insn) ? INSN_KILLS_FLAGS
									: INSN_READS_FLAGS);
}

/*
 * Does it, on some processors, leave alone what it writes? bsf and bsr do on a source of 0, and are what older processors take
 * tzcnt and lzcnt for; rdssp does without shadow stacks.
 */
static int may_leave_destination(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_BSF:
	case ZYDIS_MNEMONIC_BSR:
	case ZYDIS_MNEMONIC_TZCNT:
	case ZYDIS_MNEMONIC_LZCNT:
	case ZYDIS_MNEMONIC_RDSSPD:
	case ZYDIS_MNEMONIC_RDSSPQ:
		return 1;
	default:
		return 0;
	}
}

static uint16_t bit_of(ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return whole >= ZYDIS_REGISTER_RAX && whole <= ZYDIS_REGISTER_R15
		       ? (uint16_t)(1u << (whole - ZYDIS_REGISTER_RAX))
		       : 0;
}

static int field_of(const ZydisDecodedOperand *operand)
{
	switch (operand->encoding) {
	case ZYDIS_OPERAND_ENCODING_MODRM_REG:
		return INSN_REG;
	case ZYDIS_OPERAND_ENCODING_MODRM_RM:
		return INSN_RM;
	case ZYDIS_OPERAND_ENCODING_NDSNDD:
		return INSN_VVVV;
	case ZYDIS_OPERAND_ENCODING_OPCODE:
		return INSN_LOW;
	case ZYDIS_OPERAND_ENCODING_IS4:
		return INSN_IS4;
	default:
		return -1;
	}
}

static enum insn_role role_of(const ZydisDecodedOperand *operand,
			      const ZydisDecodedInstruction *insn)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(operand->reg.value);
	int is_whole = class == ZYDIS_REGCLASS_GPR64 || class == ZYDIS_REGCLASS_GPR32;

	return operand->actions == ZYDIS_OPERAND_ACTION_WRITE && is_whole &&
			       !may_leave_destination(insn->mnemonic) &&
			       !(insn->attributes & REPEATED)
		       ? INSN_KILLED
		       : INSN_NEEDED;
}

static void add_general(struct insn_leaf *leaf, const ZydisDecodedOperand *operand,
			const ZydisDecodedInstruction *insn)
{
	enum insn_role role = role_of(operand, insn);
	int field = field_of(operand);

	if (field < 0) {
		*(role == INSN_KILLED ? &leaf->kills : &leaf->needs) |= bit_of(operand->reg.value);
		return;
	}
	leaf->roles |= (uint8_t)(role << 2 * field);
	if (ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_GPR8)
		leaf->narrow |= (uint8_t)(1u << field);
}

static void add_register(struct insn_leaf *leaf, const ZydisDecodedOperand *operand,
			 const ZydisDecodedInstruction *insn)
{
	int field = field_of(operand);

	switch (ZydisRegisterGetClass(operand->reg.value)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR32:
	case ZYDIS_REGCLASS_GPR64:
		add_general(leaf, operand, insn);
		break;
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		if (field >= 0)
			leaf->vectors |= (uint8_t)(1u << field);
		if (operand->attributes & ZYDIS_OATTRIB_IS_MULTISOURCE4)
			leaf->rules |= INSN_RULE_FOUR;
		break;
	case ZYDIS_REGCLASS_SEGMENT:
		if (operand->reg.value == ZYDIS_REGISTER_GS)
			leaf->traits |= INSN_GS;
		if (operand->reg.value == ZYDIS_REGISTER_SS &&
		    operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    insn->mnemonic == ZYDIS_MNEMONIC_MOV)
			leaf->traits |= INSN_SHADOWS;
		break;
	default:
		break;
	}
}

static void add_memory(struct insn_leaf *leaf, const ZydisDecodedOperand *operand,
		       const ZydisDecodedInstruction *insn)
{
	/* Of these modrm.reg is an address. It is told as a register, too. */
	int is_by_reg = insn->mnemonic == ZYDIS_MNEMONIC_MOVDIR64B ||
			insn->mnemonic == ZYDIS_MNEMONIC_ENQCMD ||
			insn->mnemonic == ZYDIS_MNEMONIC_ENQCMDS;

	if (is_by_reg && operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM)
		return;
	if (operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM) {
		leaf->needs |= bit_of(operand->mem.base) | bit_of(operand->mem.index);
		return;
	}
	leaf->rules |= INSN_RULE_ADDRESS;
	if (operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
		leaf->vectors |= 1u << INSN_VSIB;
}

static void add_kind(struct insn_leaf *leaf, const struct form *form,
		     const ZydisDecodedInstruction *insn)
{
	leaf->kind = kind_of(form, insn);
	switch (leaf->kind) {
	case TRAIL_JUMP:
	case TRAIL_BRANCH:
	case TRAIL_CALL:
		leaf->rules |= INSN_RULE_RELATIVE;
		if (insn->mnemonic != ZYDIS_MNEMONIC_XBEGIN)
			leaf->rules |= INSN_RULE_NEAR;
		break;
	case TRAIL_SYSCALL: /* whoever looks from outside, sees all */
	case TRAIL_STOP:
	case TRAIL_FAR:
		leaf->needs = 0xffff;
		leaf->kills = 0;
		leaf->traits = (leaf->traits & ~INSN_KILLS_FLAGS) | INSN_READS_FLAGS;
		break;
	case TRAIL_RETURN:
		if (leaf->immediate)
			leaf->rules |= INSN_RULE_POPS;
		break;
	default:
		break;
	}
	if (form->space == INSN_PLAIN && form->opcode == 0xcd)
		leaf->rules |= INSN_RULE_INT;
}

/* A leaf of what libzydis says, its rules about validity aside. */
static struct insn_leaf describe(const struct form *form, const struct answer *answer)
{
	const ZydisDecodedInstruction *insn = &answer->insn;
	struct insn_leaf leaf = {
		.traits = traits_of_mnemonic(insn->mnemonic) | flag_traits(insn),
		.immediate = insn->length - answer->head,
	};

	if (insn->attributes & REPEATED)
		leaf.traits |= INSN_STRING;
	if (insn->attributes & ZYDIS_ATTRIB_ACCEPTS_SEGMENT)
		leaf.rules |= INSN_RULE_SEGMENT;
	if (form->has_modrm)
		leaf.rules |= INSN_RULE_MODRM;
	if (is_counted(insn))
		leaf.rules |= INSN_RULE_COUNTED;
	for (int i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &answer->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER)
			add_register(&leaf, operand, insn);
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
			add_memory(&leaf, operand, insn);
	}
	if ((insn->mnemonic == ZYDIS_MNEMONIC_XOR || insn->mnemonic == ZYDIS_MNEMONIC_SUB) &&
	    form->mod == 3 && form->has_modrm && form->opcode < 0x40 && insn->operand_width >= 32)
		leaf.rules |= INSN_RULE_IDIOM;
	add_kind(&leaf, form, insn);
	leaf.kills &= ~leaf.needs;
	return leaf;
}

/* Is it none with each bit of a mask in one field set, whatever else? */
static int forbids(const struct form *form, size_t field, uint8_t bit)
{
	struct form other = *form;

	((uint8_t *)&other)[field] ^= bit;
	if (is_asked(&other))
		return 0;
	other.x ^= 1; /* else two registers may have become one */
	return form->space < INSN_EVEX || form->mod != 3 || field == offsetof(struct form, x) ||
	       !is_asked(&other);
}
#define FORBIDS(form, field, bit) forbids(form, offsetof(struct form, field), bit)

static uint32_t twin_rules(const struct form *form)
{
	struct form other = *form;
	uint32_t rules = 0;

	if (form->space < INSN_VEX)
		return 0;
	other.x = 0;
	if (form->mod == 3 && form->space >= INSN_EVEX) {
		other.rm = form->reg;
		if (is_asked(&other) != is_asked(form))
			rules |= INSN_RULE_REG_NOT_RM;
		other.rm = form->rm;
	}
	if (form->v) {
		other.x = form->x;
		other.v = form->reg;
		if (!is_asked(&other))
			rules |= INSN_RULE_REG_NOT_V;
		other.x = 0;
		other.v = form->rm;
		if (form->mod == 3 && form->rm != form->reg && !is_asked(&other))
			rules |= INSN_RULE_RM_NOT_V;
		other.v = form->index;
		if (form->mod != 3 && !is_asked(&other))
			rules |= INSN_RULE_INDEX_NOT_V;
		other.v = form->v;
	}
	other.index = form->reg;
	if (form->mod != 3 && !is_asked(&other))
		rules |= INSN_RULE_REG_NOT_INDEX;
	return rules;
}

static uint32_t register_rules(const struct form *form)
{
	uint32_t rules = 0;

	if (FORBIDS(form, r, 1))
		rules |= INSN_RULE_NO_R;
	if (form->mod == 3 && FORBIDS(form, b3, 1))
		rules |= INSN_RULE_NO_B;
	if (form->space < INSN_VEX)
		return rules;
	if (form->mod == 3 && !form->x && FORBIDS(form, x, 1))
		rules |= INSN_RULE_NO_X;
	if (!form->v)
		rules |= INSN_RULE_NO_V;
	else if (FORBIDS(form, v, 8))
		rules |= INSN_RULE_NO_V3;
	if (form->space < INSN_EVEX)
		return rules;
	if (FORBIDS(form, r2, 1))
		rules |= INSN_RULE_NO_R2;
	if (FORBIDS(form, v2, 1))
		rules |= INSN_RULE_NO_V2;
	return rules;
}

static uint32_t memory_rules(const struct form *form)
{
	struct form other = *form;

	if (form->mod == 3)
		return 0;
	other.rm = 0;
	if (!is_asked(&other))
		return INSN_RULE_SIB;
	other.rm = 5;
	other.mod = 0;
	return is_asked(&other) ? 0 : INSN_RULE_NO_RIP;
}

/* Prefixes are contexts of their own only where they change more than an address. */
static uint32_t prefix_rules(const struct form *form, const struct insn_leaf *leaf)
{
	struct form other = *form;
	struct answer answer;
	uint32_t rules = 0;

	other.lock = 1;
	if (!is_asked(&other))
		rules |= INSN_RULE_NO_LOCK;
	other.lock = 0;
	other.p67 = 1;
	if (ask(&answer, &other))
		return rules | INSN_RULE_NO_67;
	if (answer.insn.address_width == 64)
		rules |= INSN_RULE_WIDE_ADDRESS;
	if (answer.insn.length - answer.head != leaf->immediate) {
		if (leaf->immediate != 8 || answer.insn.length - answer.head != 4)
			fail("a 67 prefix changes its length", form);
		rules |= INSN_RULE_MOFFS;
	}
	return rules;
}

/* Moves of control and debug registers know no memory: the same whatever mod says. */
static int is_register_only(const struct form *form)
{
	return form->space == INSN_0F && form->opcode >= 0x20 && form->opcode <= 0x23;
}

static uint8_t valid_index(uint32_t mask)
{
	for (size_t i = 0; i < valid_count; i++)
		if (valid[i] == mask)
			return (uint8_t)i;
	if (valid_count == VALID_MAX)
		exit(1);
	valid[valid_count] = mask;
	return (uint8_t)valid_count++;
}

/* In which of EVEX's ways the same stands. */
static uint8_t evex_ways(const struct form *form, const struct insn_leaf *leaf)
{
	struct form other = *form;
	struct answer answer;
	uint32_t mask = 0;

	for (unsigned int way = 0; way < 32; way++) {
		struct insn_leaf same;

		other.aaa = way & 1;
		other.z = way >> 1 & 1;
		other.b = way >> 2 & 1;
		other.l = way >> 3 & 3;
		if (ask(&answer, &other))
			continue;
		mask |= 1u << way;
		same = describe(&other, &answer);
		if (memcmp(&same, leaf, sizeof(same)))
			fail("EVEX's ways differ", form);
	}
	return valid_index(mask);
}

static int find_registers(struct form *form, struct answer *answer)
{
	int is_evex_register = form->space >= INSN_EVEX && form->mod == 3;

	for (int x = is_evex_register; x >= 0; x--) {
		uint8_t free = 1;

		form->x = (uint8_t)x;
		while (free == form->reg || free == form->rm || free == form->index)
			free++;
		form->v = form->space >= INSN_VEX ? free : 0;
		if (!ask(answer, form))
			return 0;
		form->v = 0;
		if (form->space >= INSN_VEX && !ask(answer, form))
			return 0;
	}
	return form->space >= INSN_VEX ? -1 : ask(answer, form);
}

/* The rest of EVEX's bits, too, for a form that is an instruction at all. 0: found. */
static int find(struct form *form, struct answer *answer)
{
	if (form->space < INSN_EVEX)
		return find_registers(form, answer);
	for (unsigned int way = 0; way < 32; way++) {
		form->aaa = way & 1;
		form->z = way >> 1 & 1;
		form->b = way >> 2 & 1;
		form->l = way >> 3 & 3;
		if (!find_registers(form, answer))
			return 0;
	}
	return -1;
}

static uint16_t leaf_index(const struct insn_leaf *leaf, const struct form *form)
{
	static size_t last;

	if (!memcmp(&leaves[last], leaf, sizeof(*leaf)))
		return (uint16_t)last;
	for (last = 0; last < leaf_count; last++)
		if (!memcmp(&leaves[last], leaf, sizeof(*leaf)))
			return (uint16_t)last;
	if (leaf_count == LEAVES_MAX)
		fail("too many leaves", form);
	last = leaf_count;
	leaves[leaf_count++] = *leaf;
	return (uint16_t)last;
}

static uint16_t leaf_of(const struct form *asked)
{
	struct form form = *asked;
	struct answer answer;
	struct insn_leaf leaf;

	if (find(&form, &answer))
		return 0;
	leaf = describe(&form, &answer);
	if (is_register_only(&form))
		leaf.rules |= INSN_RULE_REGISTER;
	if (form.space >= INSN_EVEX)
		leaf.valid = evex_ways(&form, &leaf);
	leaf.rules |= register_rules(&form) | twin_rules(&form);
	if (form.has_modrm)
		leaf.rules |= memory_rules(&form);
	leaf.rules |= prefix_rules(&form, &leaf);
	return leaf_index(&leaf, &form);
}

/* Where nodes[] has these words, or has them from now on. */
static uint16_t place(const uint16_t *words, size_t count, const struct form *form)
{
	size_t at;

	for (at = 1; at + count <= node_count; at++)
		if (!memcmp(&nodes[at], words, count * sizeof(*words)))
			return (uint16_t)at;
	if (node_count + count > NODES_MAX)
		fail("too many nodes", form);
	at = node_count;
	memcpy(&nodes[at], words, count * sizeof(*words));
	node_count += count;
	return (uint16_t)at;
}

static int all_same(const uint16_t *words, size_t count)
{
	for (size_t i = 1; i < count; i++)
		if (words[i] != words[0])
			return 0;
	return 1;
}

/* The smallest choice that tells these apart. */
static uint16_t choice_of(const uint16_t points[POINTS], const struct form *form)
{
	uint16_t words[16];
	int is_by_rm = 0;

	for (int reg = 0; reg < 8; reg++) {
		words[reg] = points[reg];
		words[8 + reg] = points[8 + 8 * reg];
		is_by_rm |= !all_same(&points[8 + 8 * reg], 8);
	}
	if (is_by_rm)
		return (uint16_t)(INSN_BY_REG_RM << INSN_CHOICE_SHIFT |
				  place(points, POINTS, form));
	if (!all_same(words, 8) || !all_same(words + 8, 8))
		return (uint16_t)(INSN_BY_REG << INSN_CHOICE_SHIFT | place(words, 16, form));
	if (words[0] == words[8])
		return words[0];
	words[1] = words[8];
	return (uint16_t)(INSN_BY_FORM << INSN_CHOICE_SHIFT | place(words, 2, form));
}

/* Does an opcode have a ModRM byte, in this context? In any: whether it has does not depend on what it says. */
static int has_modrm(const struct form *form)
{
	struct form other = *form;
	struct answer answer;

	if (form->space >= INSN_VEX)
		return form->opcode != 0x77 || form->space != INSN_VEX; /* vzeroupper, vzeroall */
	if (form->space != INSN_PLAIN && form->space != INSN_0F)
		return 1;
	other.has_modrm = 1;
	for (unsigned int modrm = 0; modrm < 256; modrm++) {
		other.mod = (uint8_t)(modrm >> 6);
		other.reg = modrm >> 3 & 7;
		other.rm = modrm & 7;
		if (!ask(&answer, &other))
			return !!(answer.insn.attributes & ZYDIS_ATTRIB_HAS_MODRM);
	}
	return 1;
}

static uint16_t word_of(struct form *form)
{
	uint16_t points[POINTS];

	form->has_modrm = (uint8_t)has_modrm(form);
	form->index = 1;
	if (!form->has_modrm)
		return leaf_of(form);
	for (unsigned int i = 0; i < POINTS; i++) {
		int is_memory = i < 8;

		form->mod = is_memory && !is_register_only(form) ? 1 : 3;
		form->reg = (uint8_t)(is_memory ? i : (i - 8) >> 3);
		form->rm = is_memory ? 4 : i & 7;
		form->index = form->reg == 1 ? 2 : 1;
		points[i] = leaf_of(form);
	}
	return choice_of(points, form);
}

static size_t contexts_of(int space)
{
	return space >= INSN_EVEX  ? INSN_CONTEXTS_EVEX
	       : space >= INSN_VEX ? INSN_CONTEXTS_VEX
				   : INSN_CONTEXTS_LEGACY;
}

/* Bytes that are no opcodes in 64-bit mode, but lead on to them. */
static int is_prefix(int space, int opcode)
{
	static const uint8_t plain[] = { 0x0f, 0x26, 0x2e, 0x36, 0x3e, 0x62, 0x64, 0x65,
					 0x66, 0x67, 0xc4, 0xc5, 0xf0, 0xf2, 0xf3 };

	if (space == INSN_PLAIN)
		return memchr(plain, opcode, sizeof(plain)) || (opcode & 0xf0) == 0x40;
	return space == INSN_0F && (opcode == 0x0f || opcode == 0x38 || opcode == 0x3a);
}

static uint16_t root_of(int space, int opcode)
{
	uint16_t words[INSN_CONTEXTS_VEX];
	size_t count = contexts_of(space);
	struct form form;

	for (size_t context = 0; context < count; context++) {
		form = (struct form){
			.space = (uint8_t)space,
			.opcode = (uint8_t)opcode,
			.w = context & 1,
		};
		if (space >= INSN_VEX) {
			form.pp = context >> 1 & 3;
			form.l = context >> 3 & 1;
		} else {
			form.p66 = context >> 1 & 1;
			form.repeat = (uint8_t)(context >> 2);
		}
		words[context] = is_prefix(space, opcode) ? 0 : word_of(&form);
	}
	return !words[0] && all_same(words, count) ? 0 : place(words, count, &form);
}

static void print_words(const uint16_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s0x%x,", i % 16 ? " " : "\n\t", words[i]);
}

static void print_leaves(void)
{
	printf("\n};\n\nconst struct insn_leaf insn_leaves[] = {");
	for (size_t i = 0; i < leaf_count; i++)
		printf("\n\t{ 0x%x, 0x%x, 0x%x, 0x%x, %u, %u, 0x%x, 0x%x, 0x%x, %u },",
		       leaves[i].rules, leaves[i].traits, leaves[i].needs, leaves[i].kills,
		       leaves[i].kind, leaves[i].immediate, leaves[i].roles, leaves[i].narrow,
		       leaves[i].vectors, leaves[i].valid);
}

int main(void)
{
	if (ZYAN_FAILED(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return 1;
	for (int space = 0; space < INSN_SPACES; space++)
		for (int opcode = 0; opcode < 256; opcode++)
			roots[space][opcode] = root_of(space, opcode);
	printf("/* Written by insn_tables_make. */\n#include \"agent/trail/insn_tables.h\"\n\n"
	       "const uint16_t insn_roots[INSN_SPACES][256] = {");
	for (int space = 0; space < INSN_SPACES; space++) {
		printf("\n\t{");
		print_words(roots[space], 256);
		printf("\n\t},");
	}
	printf("\n};\n\nconst uint16_t insn_nodes[] = {");
	print_words(nodes, node_count);
	print_leaves();
	printf("\n};\n\nconst uint32_t insn_valid[] = {");
	for (size_t i = 0; i < valid_count; i++)
		printf("\n\t0x%x,", valid[i]);
	printf("\n};\n");
	fprintf(stderr, "insn_tables_make: %zu nodes, %zu leaves, %zu masks\n", node_count,
		leaf_count, valid_count);
	return fflush(stdout) || ferror(stdout);
}
