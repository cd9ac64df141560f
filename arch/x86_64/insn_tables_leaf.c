/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/insn_tables_leaf.h"
#include "arch/insn.h"
#include "base/opcode.h"

#define SIX_FLAGS                                                                                  \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |               \
	 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)

/* But for int $0x80: INSN_RULE_INT. */
static uint8_t kind_of(const struct form *form, const ZydisDecodedInstruction *insn)
{
	if (form->space == INSN_0F)
		return opcode_kind_0f(form->opcode);
	if (form->space != INSN_PLAIN)
		return TRAIL_FALL;
	return insn->mnemonic == ZYDIS_MNEMONIC_XBEGIN ? TRAIL_BRANCH
						       : opcode_kind(form->opcode, form->reg);
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
 * Does it, on some processors, leave alone what it writes? bsf and bsr do on a source of 0, and are
 * what older processors take tzcnt and lzcnt for; rdssp does without shadow stacks.
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

static int is_masked_by_signs(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_VMASKMOVPS:
	case ZYDIS_MNEMONIC_VMASKMOVPD:
	case ZYDIS_MNEMONIC_VPMASKMOVD:
	case ZYDIS_MNEMONIC_VPMASKMOVQ:
		return 1;
	default:
		return 0;
	}
}

/* What modrm.reg names. NULL: no register. */
static const ZydisDecodedOperand *register_of(const struct answer *answer)
{
	for (int i = 0; i < answer->insn.operand_count; i++)
		if (answer->operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    answer->operands[i].encoding == ZYDIS_OPERAND_ENCODING_MODRM_REG)
			return &answer->operands[i];
	return NULL;
}

static enum insn_store store_of(const ZydisDecodedOperand *memory, const struct answer *answer)
{
	const ZydisDecodedInstruction *insn = &answer->insn;
	const ZydisDecodedOperand *reg = register_of(answer);
	ZydisRegisterClass class = reg ? ZydisRegisterGetClass(reg->reg.value) : 0;

	if (insn->mnemonic == ZYDIS_MNEMONIC_MOVDIR64B)
		return INSN_STORE_COPY;
	if (!(memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) || !reg)
		return INSN_STORE_OTHER;
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		return class == ZYDIS_REGCLASS_SEGMENT ? INSN_STORE_OTHER : INSN_STORE_GENERAL;
	case ZYDIS_MNEMONIC_MOVNTI:
	case ZYDIS_MNEMONIC_MOVDIRI:
		return INSN_STORE_GENERAL;
	case ZYDIS_MNEMONIC_MOVHPS:
	case ZYDIS_MNEMONIC_MOVHPD:
	case ZYDIS_MNEMONIC_VMOVHPS:
	case ZYDIS_MNEMONIC_VMOVHPD:
		return INSN_STORE_HIGH;
	case ZYDIS_MNEMONIC_VCVTPS2PH:
	case ZYDIS_MNEMONIC_TILESTORED:
		return INSN_STORE_CONVERT;
	default:
		break;
	}
	if (class < ZYDIS_REGCLASS_XMM || class > ZYDIS_REGCLASS_ZMM)
		return INSN_STORE_OTHER;
	if (is_masked_by_signs(insn))
		return INSN_STORE_SIGNS;
	if (memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
		return INSN_STORE_SCATTER;
	if (insn->meta.category == ZYDIS_CATEGORY_COMPRESS)
		return INSN_STORE_COMPRESS;
	if (insn->raw.imm[0].size)
		return INSN_STORE_EXTRACT;
	return memory->element_size < reg->element_size &&
			       memory->element_count == reg->element_count
		       ? INSN_STORE_CONVERT
		       : INSN_STORE_VECTOR;
}

/*
 * Are fewer bytes met than the operand has, or others? By a mask, by a bit's number, as those of a
 * cache line, or as half of them may do.
 */
static int may_meet_others(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
	case ZYDIS_MNEMONIC_CLFLUSH:
	case ZYDIS_MNEMONIC_CLFLUSHOPT:
	case ZYDIS_MNEMONIC_CLWB:
		return 1;
	default:
		break;
	}
	/*
	 * unpcklps to unpckhpd, punpcklbw to punpckhqdq: "an implementation may fetch only the
	 * appropriate 64 bits"
	 */
	return is_masked_by_signs(insn) || (insn->opcode_map == ZYDIS_OPCODE_MAP_0F &&
					    (insn->opcode == 0x14 || insn->opcode == 0x15 ||
					     (insn->opcode >= 0x60 && insn->opcode <= 0x62) ||
					     (insn->opcode >= 0x68 && insn->opcode <= 0x6a) ||
					     insn->opcode == 0x6c || insn->opcode == 0x6d));
}

/* Has the operand another size with vectors of another length? */
static int is_scaled(const ZydisDecodedOperand *operand, const struct form *form,
		     const struct answer *answer)
{
	struct form other = *form;
	struct answer its;

	other.l = form->l ? form->l - 1 : 1;
	return form->space >= INSN_EVEX && !form_ask(&its, &other) &&
	       its.operands[operand - answer->operands].size != operand->size;
}

static uint16_t memory_of(const ZydisDecodedOperand *operand, const struct form *form,
			  const struct answer *answer)
{
	const ZydisDecodedInstruction *insn = &answer->insn;
	unsigned int store = store_of(operand, answer), bytes = operand->size / 8u, word;

	if (!store && ((insn->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY &&
			insn->encoding != ZYDIS_INSTRUCTION_ENCODING_VEX) ||
		       operand->mem.type != ZYDIS_MEMOP_TYPE_MEM))
		return 0;
	word = store << INSN_MEMORY_STORE_SHIFT;
	if (!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		word |= INSN_MEMORY_READS;
	if (store >= INSN_STORE_SCATTER && operand->element_size <= 64)
		word |= (unsigned int)__builtin_ctz(operand->element_size / 8u)
			<< INSN_MEMORY_ELEMENT_SHIFT;
	if (is_scaled(operand, form, answer)) {
		word |= INSN_MEMORY_SCALES;
		bytes >>= form->l;
	}
	if (bytes <= INSN_MEMORY_BYTES && (store == INSN_STORE_SIGNS || !may_meet_others(insn)))
		word |= bytes;
	return (uint16_t)word;
}

static void add_memory(struct insn_leaf *leaf, const ZydisDecodedOperand *operand,
		       const struct form *form, const struct answer *answer)
{
	const ZydisDecodedInstruction *insn = &answer->insn;
	/* In these modrm.reg is an address. libzydis lists it as a register, too. */
	int is_by_reg = insn->mnemonic == ZYDIS_MNEMONIC_MOVDIR64B ||
			insn->mnemonic == ZYDIS_MNEMONIC_ENQCMD ||
			insn->mnemonic == ZYDIS_MNEMONIC_ENQCMDS;

	if (is_by_reg && operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM)
		return;
	if (operand->encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM) {
		leaf->needs |= bit_of(operand->mem.base) | bit_of(operand->mem.index);
		if (insn->mnemonic == ZYDIS_MNEMONIC_MASKMOVDQU ||
		    insn->mnemonic == ZYDIS_MNEMONIC_VMASKMOVDQU)
			leaf->memory = INSN_STORE_SIGNS << INSN_MEMORY_STORE_SHIFT | 16;
		return;
	}
	leaf->rules |= INSN_RULE_ADDRESS;
	leaf->memory = memory_of(operand, form, answer);
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
	case TRAIL_SYSCALL: /* an observer outside sees all registers */
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

struct insn_leaf leaf_describe(const struct form *form, const struct answer *answer)
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
			add_memory(&leaf, operand, form, answer);
	}
	if ((insn->mnemonic == ZYDIS_MNEMONIC_XOR || insn->mnemonic == ZYDIS_MNEMONIC_SUB) &&
	    form->mod == 3 && form->has_modrm && form->opcode < 0x40 && insn->operand_width >= 32)
		leaf.rules |= INSN_RULE_IDIOM;
	add_kind(&leaf, form, insn);
	leaf.kills &= ~leaf.needs;
	return leaf;
}
