/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/testing/insn_oracle.h"
#include "arch/insn.h"

#include <Zydis/Zydis.h>
#include <string.h>

#define AT 0x7f1234567000u
#define SIX_FLAGS                                                                                  \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |               \
	 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)
#define REPEATED (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE)
#define FLAG_TRAITS (INSN_READS_FLAGS | INSN_KILLS_FLAGS)

struct truth {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

/* Instructions of libzydis in a set that no Linux runs on: insn_tables_make.c. */
static int is_left_out(const ZydisDecodedInstruction *insn)
{
	return insn->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
	       (insn->meta.isa_set >= ZYDIS_ISA_SET_KNCE &&
		insn->meta.isa_set <= ZYDIS_ISA_SET_KNC_PF_HINT);
}

static int ask(struct truth *truth, const uint8_t *code, size_t left, int amd)
{
	static ZydisDecoder decoders[2];
	static int is_ready;

	if (!is_ready) {
		for (int i = 0; i < 2; i++) {
			ZydisDecoderInit(&decoders[i], ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64);
			ZydisDecoderEnableMode(&decoders[i], ZYDIS_DECODER_MODE_AMD_BRANCHES, !!i);
		}
		is_ready = 1;
	}
	return ZYAN_FAILED(ZydisDecoderDecodeFull(&decoders[!!amd], code, left, &truth->insn,
						  truth->operands)) ||
	       is_left_out(&truth->insn);
}

/* By what libzydis counts it among, not by its opcode. */
static int kind_of(const struct truth *truth)
{
	const ZydisDecodedInstruction *insn = &truth->insn;
	int is_direct = truth->operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	int is_far = insn->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;

	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return insn->mnemonic == ZYDIS_MNEMONIC_XEND ||
				       insn->mnemonic == ZYDIS_MNEMONIC_XABORT
			       ? TRAIL_FALL
			       : TRAIL_BRANCH;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (insn->mnemonic == ZYDIS_MNEMONIC_XABORT)
			return TRAIL_FALL;
		return is_far ? TRAIL_FAR : is_direct ? TRAIL_JUMP : TRAIL_JUMP_INDIRECT;
	case ZYDIS_CATEGORY_CALL:
		return is_far ? TRAIL_FAR : is_direct ? TRAIL_CALL : TRAIL_CALL_INDIRECT;
	case ZYDIS_CATEGORY_RET:
		return insn->mnemonic == ZYDIS_MNEMONIC_RET && !is_far ? TRAIL_RETURN : TRAIL_FAR;
	case ZYDIS_CATEGORY_INTERRUPT:
		return insn->mnemonic == ZYDIS_MNEMONIC_INT && insn->raw.imm[0].value.u == 0x80
			       ? TRAIL_SYSCALL
			       : TRAIL_STOP;
	default:
		break;
	}
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSENTER:
		return TRAIL_SYSCALL;
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_SYSEXIT:
		return TRAIL_FAR;
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
		return TRAIL_STOP;
	default:
		return TRAIL_FALL;
	}
}

static int ends_knowledge(int kind)
{
	return kind == TRAIL_SYSCALL || kind == TRAIL_STOP || kind == TRAIL_FAR;
}

static uint64_t target_of(const struct truth *truth, int kind, int amd)
{
	const ZydisDecodedInstruction *insn = &truth->insn;
	uint64_t target = AT + insn->length + (uint64_t)insn->raw.imm[0].value.s;

	if (kind != TRAIL_JUMP && kind != TRAIL_BRANCH && kind != TRAIL_CALL)
		return 0;
	return amd && insn->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE && !insn->raw.rex.W
		       ? target & 0xffff
		       : target;
}

static int disp_at(const struct truth *truth)
{
	const ZydisDecodedInstruction *insn = &truth->insn;

	if (insn->raw.imm[0].is_relative && insn->raw.imm[0].size == 32)
		return insn->raw.imm[0].offset;
	for (int i = 0; i < insn->operand_count; i++)
		if (truth->operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (truth->operands[i].mem.base == ZYDIS_REGISTER_RIP ||
		     truth->operands[i].mem.base == ZYDIS_REGISTER_EIP))
			return insn->raw.disp.offset;
	return 0;
}

static uint16_t bit_of(ZydisRegister reg)
{
	ZyanI8 id = ZydisRegisterGetId(
		ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg));

	switch (ZydisRegisterGetClass(reg)) {
	case ZYDIS_REGCLASS_GPR8:
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR32:
	case ZYDIS_REGCLASS_GPR64:
		return (uint16_t)(1u << id);
	default:
		return 0;
	}
}

static int is_whole(ZydisRegister reg)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(reg);

	return class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64;
}

static int is_idiom(const struct truth *truth)
{
	const ZydisDecodedOperand *operands = truth->operands;

	return (truth->insn.mnemonic == ZYDIS_MNEMONIC_XOR ||
		truth->insn.mnemonic == ZYDIS_MNEMONIC_SUB) &&
	       operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       operands[0].reg.value == operands[1].reg.value && is_whole(operands[0].reg.value);
}

/*
 * libzydis 4.0 sees r13d where there is no base: for addresses of 64 bits it knows that REX.B does
 * not count there.
 */
static int has_false_base(const ZydisDecodedInstruction *insn)
{
	return insn->address_width == 32 && insn->attributes & ZYDIS_ATTRIB_HAS_SIB &&
	       insn->raw.modrm.mod == 0 && insn->raw.sib.base == 5;
}

static void uses_of(const struct truth *truth, uint16_t *needs, uint16_t *kills)
{
	*needs = *kills = 0;
	for (int i = 0; i < truth->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &truth->operands[i];
		uint16_t bit;

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY)
			*needs |= (has_false_base(&truth->insn) ? 0 : bit_of(operand->mem.base)) |
				  bit_of(operand->mem.index);
		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		bit = bit_of(operand->reg.value);
		if (operand->actions &
			    (ZYDIS_OPERAND_ACTION_MASK_READ | ZYDIS_OPERAND_ACTION_CONDWRITE) ||
		    !is_whole(operand->reg.value))
			*needs |= bit;
		else
			*kills |= bit;
	}
	if (is_idiom(truth)) {
		*kills = *needs;
		*needs = 0;
	}
	*kills &= (uint16_t) ~*needs;
}

/* May run as another instruction, on other processors, or not at all. */
static int is_uncertain(const ZydisDecodedInstruction *insn)
{
	switch (insn->mnemonic) {
	case ZYDIS_MNEMONIC_BSF:
	case ZYDIS_MNEMONIC_BSR:
	case ZYDIS_MNEMONIC_TZCNT:
	case ZYDIS_MNEMONIC_LZCNT:
	case ZYDIS_MNEMONIC_RDSSPD:
	case ZYDIS_MNEMONIC_RDSSPQ:
	case ZYDIS_MNEMONIC_PAUSE: /* or an exchange of r8, if REX.B counts here */
		return 1;
	default:
		return !!(insn->attributes & REPEATED);
	}
}

static const char *registers_differ(const struct insn *insn, const struct truth *truth, int kind)
{
	uint16_t needs, kills;

	if (ends_knowledge(kind))
		return insn->needs == 0xffff && !insn->kills ? NULL : "needs where a block ends";
	uses_of(truth, &needs, &kills);
	if (needs & ~insn->needs)
		return "needs too little";
	if (insn->kills & ~kills || insn->kills & insn->needs)
		return "kills too much";
	if (is_uncertain(&truth->insn))
		return kills & ~(insn->needs | insn->kills) || insn->kills ? "kills in doubt"
									   : NULL;
	return insn->needs != needs || insn->kills != kills ? "needs or kills" : NULL;
}

/* A shift whose count is 0, or may be. */
static int may_shift_nothing(const struct truth *truth)
{
	const ZydisDecodedOperand *count = &truth->operands[1];

	switch (truth->insn.mnemonic) {
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD:
		count = &truth->operands[2];
		break;
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SAR:
		break;
	default:
		return 0;
	}
	return count->type == ZYDIS_OPERAND_TYPE_REGISTER ||
	       !(count->imm.value.u & (truth->insn.operand_width == 64 ? 63 : 31));
}

static unsigned int flags_of(const struct truth *truth, int kind)
{
	const ZydisAccessedFlags *flags = truth->insn.cpu_flags;
	uint32_t changed = 0;
	unsigned int traits = 0;

	if (flags) {
		changed = SIX_FLAGS &
			  (flags->modified | flags->set_0 | flags->set_1 | flags->undefined);
		traits = flags->tested & SIX_FLAGS ? INSN_READS_FLAGS : 0;
	}
	if (ends_knowledge(kind))
		return INSN_READS_FLAGS;
	if (changed == SIX_FLAGS && !may_shift_nothing(truth) &&
	    !(truth->insn.attributes & REPEATED))
		return traits | INSN_KILLS_FLAGS;
	return changed ? INSN_READS_FLAGS : traits;
}

static int is_vector15(ZydisRegister reg)
{
	return reg == ZYDIS_REGISTER_XMM15 || reg == ZYDIS_REGISTER_YMM15 ||
	       reg == ZYDIS_REGISTER_ZMM15;
}

static unsigned int places_of(const struct truth *truth)
{
	unsigned int traits = 0;

	for (int i = 0; i < truth->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &truth->operands[i];
		int is_four = operand->attributes & ZYDIS_OATTRIB_IS_MULTISOURCE4;

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			if (operand->mem.segment == ZYDIS_REGISTER_GS)
				traits |= INSN_GS;
			if (is_vector15(operand->mem.index))
				traits |= INSN_VECTOR15;
		}
		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		if (operand->reg.value == ZYDIS_REGISTER_GS)
			traits |= INSN_GS;
		for (int more = 0; more <= (is_four ? 3 : 0); more++)
			if (is_vector15((operand->reg.value & (is_four ? ~3u : ~0u)) + more))
				traits |= INSN_VECTOR15;
	}
	return traits;
}

static int segment_of(const struct truth *truth)
{
	for (int i = 0; i < truth->insn.operand_count; i++) {
		if (truth->operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY)
			continue;
		if (truth->operands[i].mem.segment == ZYDIS_REGISTER_GS)
			return 0x65;
		if (truth->operands[i].mem.segment == ZYDIS_REGISTER_FS)
			return 0x64;
	}
	return 0;
}

/* The memory that ModRM names, without a vector of indices. NULL: none, or the tables ignore it. */
static const ZydisDecodedOperand *memory_of(const struct truth *truth)
{
	const ZydisDecodedOperand *found = NULL;
	int is_evex = truth->insn.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;

	for (int i = 0; i < truth->insn.operand_count; i++) {
		const ZydisDecodedOperand *operand = &truth->operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->mem.type == ZYDIS_MEMOP_TYPE_MEM &&
		    operand->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM)
			found = operand;
	}
	return found && (truth->insn.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
			 truth->insn.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
			 (is_evex && found->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		       ? found
		       : NULL;
}

static const char *memory_differs(const struct insn *insn, const struct truth *truth)
{
	const ZydisDecodedOperand *memory = memory_of(truth);
	unsigned int bytes = insn->memory & INSN_MEMORY_BYTES;
	unsigned int element = 1u << (insn->memory >> INSN_MEMORY_ELEMENT_SHIFT & 3);
	int reads = memory && !(memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);

	if (insn->memory & INSN_MEMORY_SCALES)
		bytes *= truth->insn.avx.vector_length / 128u;
	if (!!(insn->memory & INSN_MEMORY_READS) != reads)
		return "whether it only reads";
	if (!memory)
		return NULL;
	if (bytes && bytes != memory->size / 8u)
		return "how many bytes of memory";
	if (truth->insn.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX)
		return NULL;
	return !bytes				     ? "how many bytes it stores"
	       : element * 8 != memory->element_size ? "its elements"
						     : NULL;
}

static unsigned int whole_state(const ZydisDecodedInstruction *insn)
{
	unsigned int traits = 0;

	if (insn->mnemonic == ZYDIS_MNEMONIC_VZEROUPPER)
		return INSN_ZEROUPPER;
	if (insn->meta.category == ZYDIS_CATEGORY_XSAVE ||
	    insn->meta.category == ZYDIS_CATEGORY_XSAVEOPT ||
	    insn->meta.isa_set == ZYDIS_ISA_SET_FXSAVE ||
	    insn->meta.isa_set == ZYDIS_ISA_SET_FXSAVE64 ||
	    insn->mnemonic == ZYDIS_MNEMONIC_VZEROALL)
		traits = INSN_VECTORS;
	if (insn->mnemonic == ZYDIS_MNEMONIC_XGETBV || insn->mnemonic == ZYDIS_MNEMONIC_XSETBV)
		traits = 0;
	return traits;
}

static const char *traits_differ(const struct insn *insn, const struct truth *truth, int kind)
{
	unsigned int traits = insn->traits, flags = flags_of(truth, kind);

	switch (truth->insn.mnemonic) {
	case ZYDIS_MNEMONIC_FCOMI:
	case ZYDIS_MNEMONIC_FCOMIP:
	case ZYDIS_MNEMONIC_FUCOMI:
	case ZYDIS_MNEMONIC_FUCOMIP:
		flags = INSN_READS_FLAGS; /* the manuals differ */
		break;
	case ZYDIS_MNEMONIC_SWAPGS:
	case ZYDIS_MNEMONIC_RDGSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE:
		if (!(traits & INSN_GS))
			return "gs";
		traits &= ~INSN_GS; /* libzydis names no register */
		break;
	default:
		break;
	}
	if ((traits & FLAG_TRAITS) != flags)
		return "flags";
	if ((traits & (INSN_GS | INSN_VECTOR15)) != places_of(truth))
		return "gs or vector 15";
	if ((traits & (INSN_VECTORS | INSN_ZEROUPPER)) != whole_state(&truth->insn))
		return "vectors as a whole";
	if (!!(traits & INSN_STRING) != !!(truth->insn.attributes & REPEATED))
		return "string";
	return NULL;
}

static const char *shape_differs(const struct insn *insn, const struct truth *truth,
				 const uint8_t *code)
{
	const ZydisDecodedInstruction *wanted = &truth->insn;

	if (insn->modrm_at !=
	    (wanted->attributes & ZYDIS_ATTRIB_HAS_MODRM ? wanted->raw.modrm.offset : 0))
		return "where ModRM is";
	if (insn->disp_at != disp_at(truth))
		return "where its displacement is";
	if (insn->rex !=
	    (wanted->attributes & ZYDIS_ATTRIB_HAS_REX ? code[wanted->raw.rex.offset] : 0))
		return "REX";
	if (code[insn->opcode_at] != wanted->opcode)
		return "its opcode";
	if (insn->segment != segment_of(truth))
		return "its segment";
	if (insn->is_short_address != (wanted->address_width == 32))
		return "the width of addresses";
	if (insn->pops != (wanted->mnemonic == ZYDIS_MNEMONIC_RET && insn->kind == TRAIL_RETURN
				   ? wanted->raw.imm[0].value.u
				   : 0))
		return "what it pops";
	return NULL;
}

const char *insn_differs(const uint8_t *code, size_t left, int amd, unsigned int *bytes)
{
	struct truth truth;
	struct insn insn = { .kind = TRAIL_KINDS };
	const char *what;
	int is_invalid = ask(&truth, code, left, amd);
	int kind;

	*bytes = 0;
	if (!!insn_decode(&insn, code, left, AT, amd) != is_invalid)
		return is_invalid ? "it is no instruction" : "it is an instruction";
	if (is_invalid)
		return insn.kind == TRAIL_KINDS ? NULL : "it changed an invalid instruction";
	*bytes = truth.insn.length;
	kind = kind_of(&truth);
	if (insn.bytes != truth.insn.length)
		return "its length";
	if (insn.kind != kind)
		return "its kind";
	if (insn.target != target_of(&truth, kind, amd))
		return "its target";
	what = shape_differs(&insn, &truth, code);
	if (!what)
		what = memory_differs(&insn, &truth);
	if (!what)
		what = registers_differ(&insn, &truth, kind);
	return what ? what : traits_differ(&insn, &truth, kind);
}
