/* SPDX-License-Identifier: MIT */
/* Opcodes: Intel SDM, volume 2, appendix A. */
#include "arch/written.h"

#include "arch/insn.h"
#include "arch/x86_64/parts.h"
#include "arch/x86_64/stored.h"

#define FXSAVE_BYTES 416u /* it does not write the rest of its 512 */
#define RAX 0u
#define RSP 4u
#define RSI 6u
#define RDI 7u
#define FLAG_CARRY 0x001u
#define FLAG_PARITY 0x004u
#define FLAG_ZERO 0x040u
#define FLAG_SIGN 0x080u
#define FLAG_DIRECTION 0x400u
#define FLAG_OVERFLOW 0x800u

static uint64_t flags_of(const ucontext_t *context)
{
	return (uint64_t)context->uc_mcontext.gregs[REG_EFL];
}

static void put(struct written *written, uint64_t value, unsigned int bytes)
{
	__builtin_memcpy(written->value, &value, sizeof value);
	written->bytes = bytes;
	written->way = WRITTEN_NEW;
}

/* A general register as an operand of that size: ah to bh where there is no REX. */
static uint64_t operand_of(const struct parts *parts, const struct insn *insn,
			   const ucontext_t *context, unsigned int bytes)
{
	if (bytes == 1 && !insn->rex && parts->reg >= 4)
		return reg_of(context, parts->reg - 4u) >> 8;
	return reg_of(context, parts->reg);
}

static unsigned int size_of(const struct parts *parts)
{
	return parts->w ? 8 : parts->is_narrow ? 2 : 4;
}

/* ---- taking apart ---- */

static void take_vex(struct parts *parts, const uint8_t *at)
{
	uint8_t last = at[0] == 0xc5 ? at[1] : at[2];

	parts->r = !(at[1] & 0x80);
	parts->x = at[0] == 0xc4 && !(at[1] & 0x40);
	parts->b = at[0] == 0xc4 && !(at[1] & 0x20);
	parts->w = at[0] == 0xc4 && at[2] & 0x80;
	parts->vector = ~last >> 3 & 15;
	parts->all = last & 4 ? 32 : 16;
}

static void take_evex(struct parts *parts, const uint8_t *at, unsigned int memory)
{
	unsigned int length = at[3] >> 5 & 3;

	parts->r = (uint8_t)((at[1] & 0x80 ? 0 : 1) | (at[1] & 0x10 ? 0 : 2));
	parts->x = !(at[1] & 0x40);
	parts->b = !(at[1] & 0x20);
	parts->w = at[2] >> 7;
	parts->vector = (uint8_t)((~at[2] >> 3 & 15) | (at[3] & 8 ? 0 : 16));
	parts->mask = at[3] & 7;
	parts->all = (uint8_t)(16u << length);
	if (memory & INSN_MEMORY_SCALES)
		parts->extent = (uint8_t)(parts->extent << length);
	parts->unit = parts->store == INSN_STORE_COMPRESS ? parts->element : parts->extent;
}

static int is_prefix(uint8_t byte)
{
	return byte == 0x66 || byte == 0x67 || byte == 0xf2 || byte == 0xf3 || byte == 0xf0 ||
	       byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 ||
	       byte == 0x65;
}

void written_parts_take(struct parts *parts, const struct insn *insn, const uint8_t *code)
{
	unsigned int at = 0;

	*parts = (struct parts){
		.code = code,
		.store = insn->memory >> INSN_MEMORY_STORE_SHIFT & 15,
		.extent = insn->memory & INSN_MEMORY_BYTES,
		.element = (uint8_t)(1u << (insn->memory >> INSN_MEMORY_ELEMENT_SHIFT & 3)),
		.all = 16,
		.unit = 1,
		.space = SPACE_OTHER,
		.base = 0xff,
		.index = 0xff,
	};
	for (; at < insn->opcode_at && is_prefix(code[at]); at++) {
		parts->is_narrow |= code[at] == 0x66;
		parts->is_locked |= code[at] == 0xf0;
		if (code[at] == 0xf2 || code[at] == 0xf3)
			parts->repeat = code[at];
	}
	if (at < insn->opcode_at && (code[at] & 0xf0) == 0x40) {
		parts->w = code[at] >> 3 & 1;
		parts->r = code[at] >> 2 & 1;
		parts->x = code[at] >> 1 & 1;
		parts->b = code[at] & 1;
		at++;
	}
	parts->opcode = code[insn->opcode_at];
	parts->modrm = insn->modrm_at ? code[insn->modrm_at] : 0;
	if (at == insn->opcode_at)
		parts->space = SPACE_PLAIN;
	else if (code[at] == 0xc5 || code[at] == 0xc4)
		take_vex(parts, code + at);
	else if (code[at] == 0x62)
		take_evex(parts, code + at, insn->memory);
	else if (code[at] == 0x0f && at + 1 == insn->opcode_at)
		parts->space = SPACE_0F;
	parts->reg = (uint8_t)((parts->modrm >> 3 & 7) | parts->r << 3);
}

/* 0, -1: there is no address, or it is lost. */
static int find_address(struct parts *parts, const struct insn *insn, const ucontext_t *context,
			written_thread *thread, uintptr_t *address)
{
	unsigned int at = insn->modrm_at + 1u, mod = parts->modrm >> 6, rm = parts->modrm & 7;
	uint64_t unit = mod == 1 ? parts->unit : 1, sum = 0;
	int is_vector = parts->store == INSN_STORE_SCATTER; /* its index */

	if (!insn->modrm_at || mod == 3 || insn->segment == 0x65 ||
	    (insn->segment == 0x64 && !thread))
		return -1;
	parts->base = (uint8_t)(rm | (unsigned int)parts->b << 3);
	if (rm == 4) {
		uint8_t sib = parts->code[at++];

		parts->base = (uint8_t)((sib & 7u) | (unsigned int)parts->b << 3);
		parts->index = (uint8_t)((sib >> 3 & 7u) | (unsigned int)parts->x << 3);
		parts->scale = sib >> 6;
		if (parts->index == 4 && !is_vector)
			parts->index = 0xff;
		else if (!is_vector)
			sum = reg_of(context, parts->index) << parts->scale;
	}
	if (!mod && (parts->base & 7) == 5) {
		/* behind a SIB there is no base; else it counts from the instruction's end */
		parts->base = 0xff;
		sum += (uint64_t)signed_at(parts->code + at, 4);
		sum += rm == 4 ? 0 : (uint64_t)context->uc_mcontext.gregs[REG_RIP];
		at += 4;
	} else {
		sum += reg_of(context, parts->base);
		sum += mod ? (uint64_t)signed_at(parts->code + at, mod == 1 ? 1 : 4) * unit : 0;
		at += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	}
	parts->imm_at = at;
	if (insn->is_short_address)
		sum = (uint32_t)sum;
	*address = sum + (insn->segment == 0x64 ? thread() : 0);
	return 0;
}

static int is_in_address(const struct parts *parts, unsigned int number)
{
	return parts->base == number || parts->index == number;
}

static int64_t immediate(const struct parts *parts, unsigned int bytes)
{
	return signed_at(parts->code + parts->imm_at, bytes > 4 ? 4 : bytes);
}

/* ---- what each does, of those that write ---- */

static void change(struct written *written, unsigned int bytes, enum written_change how,
		   uint64_t value)
{
	put(written, value, bytes);
	written->way = WRITTEN_CHANGED;
	written->change = (uint8_t)how;
}

/* The eight of `add` and its kin; adc and sbb ask for a flag that is gone. */
static void tell_arithmetic(struct written *written, unsigned int which, unsigned int bytes,
			    uint64_t value)
{
	static const int8_t kinds[8] = { CHANGE_ADD, CHANGE_OR,	 -1,	     -1,
					 CHANGE_AND, CHANGE_SUB, CHANGE_XOR, -1 };

	if (kinds[which] >= 0)
		change(written, bytes, (enum written_change)kinds[which], value);
}

static void tell_group(struct written *written, const struct parts *parts, unsigned int bytes)
{
	unsigned int which = parts->modrm >> 3 & 7;

	if (parts->opcode <= 0xf7)
		change(written, bytes, which == 2 ? CHANGE_NOT : CHANGE_NEG, 0);
	else
		change(written, bytes, which ? CHANGE_SUB : CHANGE_ADD, 1);
}

/* xchg, xadd. -1: which operand it wrote is unknown. */
static int tell_exchange(struct written *written, const struct parts *parts,
			 const struct insn *insn, const ucontext_t *context, unsigned int bytes,
			 enum written_exchange exchange)
{
	if (is_in_address(parts, parts->reg))
		return -1;
	/* operands are never looked up for ah to bh */
	if (bytes > 1 || insn->rex || parts->reg < 4)
		written->exchange = (uint8_t)exchange;
	written->operand = parts->reg;
	written->bytes = bytes;
	written->old = operand_of(parts, insn, context, bytes);
	written->has_old = 1;
	return 0;
}

static int tell_plain(struct written *written, const struct parts *parts, const struct insn *insn,
		      const ucontext_t *context)
{
	uint8_t opcode = parts->opcode;
	unsigned int bytes = opcode & 1 ? size_of(parts) : 1, which = parts->modrm >> 3 & 7;

	if (opcode < 0x40 && (opcode & 7) < 2) {
		tell_arithmetic(written, opcode >> 3, bytes,
				operand_of(parts, insn, context, bytes));
	} else if (opcode == 0x80 || opcode == 0x81) {
		tell_arithmetic(written, which, bytes, (uint64_t)immediate(parts, bytes));
	} else if (opcode == 0x83) {
		tell_arithmetic(written, which, bytes, (uint64_t)immediate(parts, 1));
	} else if (opcode == 0x86 || opcode == 0x87) {
		return tell_exchange(written, parts, insn, context, bytes, EXCHANGE_SWAP);
	} else if ((opcode == 0xc6 || opcode == 0xc7) && !which) {
		put(written, (uint64_t)immediate(parts, bytes), bytes);
	} else if (opcode == 0xf6 || opcode == 0xf7 || opcode == 0xfe || opcode == 0xff) {
		tell_group(written, parts, bytes);
	}
	return 0;
}

static int is_condition(unsigned int condition, uint64_t flags)
{
	int sign = (flags & FLAG_SIGN) != 0, overflow = (flags & FLAG_OVERFLOW) != 0;
	int zero = (flags & FLAG_ZERO) != 0, carry = (flags & FLAG_CARRY) != 0, is;

	switch (condition >> 1) {
	case 0:
		is = overflow;
		break;
	case 1:
		is = carry;
		break;
	case 2:
		is = zero;
		break;
	case 3:
		is = carry || zero;
		break;
	case 4:
		is = sign;
		break;
	case 5:
		is = (flags & FLAG_PARITY) != 0;
		break;
	case 6:
		is = sign != overflow;
		break;
	default:
		is = zero || sign != overflow;
	}
	return is != (int)(condition & 1);
}

/* cmpxchg: what was not equal is stored as it was, and is in rax. */
static int tell_compared(struct written *written, const struct parts *parts,
			 const struct insn *insn, const ucontext_t *context, unsigned int bytes)
{
	int is_equal = (flags_of(context) & FLAG_ZERO) != 0;

	if (!is_equal && is_in_address(parts, RAX))
		return -1;
	written->old = reg_of(context, RAX);
	written->has_old = 1;
	put(written, is_equal ? operand_of(parts, insn, context, bytes) : written->old, bytes);
	return 0;
}

/* cmpxchg8b, cmpxchg16b */
static int tell_compared_pair(struct written *written, const struct parts *parts,
			      const ucontext_t *context)
{
	int is_equal = (flags_of(context) & FLAG_ZERO) != 0;
	unsigned int bytes = parts->w ? 8 : 4;
	uint64_t low = reg_of(context, is_equal ? 3 : 0), high = reg_of(context, is_equal ? 1 : 2);

	if ((parts->modrm >> 3 & 7) != 1)
		return 0; /* xsavec, xsaves: somehow */
	if (!is_equal && (is_in_address(parts, 0) || is_in_address(parts, 2)))
		return -1;
	put(written, low, 2 * bytes);
	__builtin_memcpy(written->value + bytes, &high, sizeof high);
	/* equal or not, rdx:rax is what it met */
	if (is_in_address(parts, 0) || is_in_address(parts, 2))
		return 0;
	written->old = reg_of(context, 0);
	written->old_high = reg_of(context, 2);
	if (bytes == 4)
		written->old = (uint32_t)written->old | written->old_high << 32;
	written->has_old = 1;
	return 0;
}

static int tell_0f(struct written *written, const struct parts *parts, const struct insn *insn,
		   const ucontext_t *context)
{
	uint8_t opcode = parts->opcode;
	unsigned int bytes = opcode & 1 ? size_of(parts) : 1;

	if (opcode == 0xae && !(parts->modrm >> 3 & 7) && !parts->repeat) { /* fxsave */
		written->bytes = FXSAVE_BYTES;
	} else if ((opcode & 0xf0) == 0x90) {
		put(written, (uint64_t)is_condition(opcode & 15u, flags_of(context)), 1);
	} else if (opcode == 0xb0 || opcode == 0xb1) {
		return tell_compared(written, parts, insn, context, bytes);
	} else if (opcode == 0xc0 || opcode == 0xc1) {
		return tell_exchange(written, parts, insn, context, bytes, EXCHANGE_ADD);
	} else if (opcode == 0xc7) {
		return tell_compared_pair(written, parts, context);
	}
	return 0;
}

/* ---- those without ModRM ---- */

static int tell_string(struct written *written, const struct parts *parts, const struct insn *insn,
		       const ucontext_t *context)
{
	unsigned int bytes = parts->opcode & 1 ? size_of(parts) : 1, which = parts->opcode & 0xfeu;
	uint64_t back = flags_of(context) & FLAG_DIRECTION ? bytes : 0 - (uint64_t)bytes;
	uint64_t to = reg_of(context, RDI) + back, from = reg_of(context, RSI) + back;
	int has_source = which == 0xa4 || which == 0xa6;

	if (insn->is_short_address || (which == 0xac && insn->segment))
		return -1;
	written->address = which == 0xac ? from : to;
	written->bytes = bytes;
	if (has_source && !insn->segment) {
		written->source = from;
		written->source_bytes = bytes;
	}
	if (which == 0xaa)
		put(written, reg_of(context, RAX), bytes);
	else if (which != 0xa4) /* cmps, lods, scas */
		written->way = WRITTEN_NOT;
	return 0;
}

static int is_string(uint8_t opcode)
{
	return (opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf);
}

static int tell_bare(struct written *written, const struct parts *parts, const struct insn *insn,
		     const ucontext_t *context)
{
	uint8_t opcode = parts->opcode;

	if (parts->space != SPACE_PLAIN)
		return -1;
	if (is_string(opcode))
		return tell_string(written, parts, insn, context);
	if (opcode >= 0xa0 && opcode <= 0xa3) {
		if (insn->is_short_address || insn->segment)
			return -1;
		__builtin_memcpy(&written->address, parts->code + insn->opcode_at + 1,
				 sizeof written->address);
		put(written, reg_of(context, RAX), opcode & 1 ? size_of(parts) : 1);
		written->way = opcode < 0xa2 ? WRITTEN_NOT : WRITTEN_NEW;
		return 0;
	}
	written->address = reg_of(context, RSP);
	/* pop, leave; the old place of `pop rsp` is unknown */
	if (((opcode >= 0x58 && opcode <= 0x5f && (opcode != 0x5c || parts->b)) ||
	     opcode == 0xc9) &&
	    !parts->is_narrow) {
		written->address -= 8;
		written->bytes = 8;
		written->way = WRITTEN_NOT;
		return 0;
	}
	if (opcode >= 0x50 && opcode <= 0x57 && !parts->is_narrow) {
		unsigned int number = (opcode & 7u) | (unsigned int)parts->b << 3;

		put(written, reg_of(context, number) + (number == RSP ? 8 : 0), 8);
		return 0;
	}
	if ((opcode == 0x68 || opcode == 0x6a) && !parts->is_narrow) {
		put(written,
		    (uint64_t)signed_at(parts->code + insn->opcode_at + 1, opcode == 0x6a ? 1 : 4),
		    8);
		return 0;
	}
	return -1;
}

/* ---- */

static int decode(struct insn *insn, struct parts *parts, const uint8_t *code, size_t bytes,
		  struct written *written)
{
	*written = (struct written){ 0 };
	if (insn_decode(insn, code, bytes, 0, 0))
		return -1;
	written_parts_take(parts, insn, code);
	written->is_locked = parts->is_locked;
	return 0;
}

/*
 * Or it is lea, a prefetch or a long nop: these have an operand in memory, and leave it alone. Of
 * the other maps, what the tables do not describe.
 */
static int is_no_access(const struct parts *parts, const struct insn *insn)
{
	return (parts->space == SPACE_OTHER && !insn->memory) ||
	       (parts->space == SPACE_PLAIN && parts->opcode == 0x8d) ||
	       (parts->space == SPACE_0F &&
		(parts->opcode == 0x0d || (parts->opcode >= 0x18 && parts->opcode <= 0x1f)));
}

/* maskmovdqu, vmaskmovdqu: they store to where rdi points, by the signs of modrm.rm. */
static int tell_mask_move(struct written *written, struct parts *parts, const struct insn *insn,
			  const ucontext_t *context)
{
	if (insn->segment || insn->is_short_address)
		return -1;
	written->address = reg_of(context, RDI);
	written->bytes = parts->extent;
	parts->vector = (uint8_t)((parts->modrm & 7) | parts->b << 3);
	stored_vector(written, parts, context);
	return 0;
}

/* movdir64b copies 64 bytes from its operand in memory to where its register points. */
static void tell_copy(struct written *written, const struct parts *parts, const struct insn *insn,
		      const ucontext_t *context)
{
	written->source = written->address;
	written->source_bytes = parts->extent;
	written->address = reg_of(context, parts->reg);
	if (insn->is_short_address)
		written->address = (uint32_t)written->address;
	written->bytes = parts->extent;
}

int written_tell(struct written *written, const uint8_t *code, size_t bytes,
		 const ucontext_t *context, written_thread *thread)
{
	struct insn insn;
	struct parts parts;

	if (decode(&insn, &parts, code, bytes, written) || insn.bytes != bytes)
		return -1;
	if (is_no_access(&parts, &insn))
		return -1;
	if (!insn.modrm_at)
		return tell_bare(written, &parts, &insn, context);
	if (parts.store == INSN_STORE_SIGNS && parts.modrm >> 6 == 3)
		return tell_mask_move(written, &parts, &insn, context);
	if (find_address(&parts, &insn, context, thread, &written->address))
		return -1;
	if (parts.store == INSN_STORE_SCATTER)
		return insn.is_short_address ? -1 : stored_scatter(written, &parts, context);
	written->bytes = parts.extent;
	if (parts.store == INSN_STORE_COPY)
		tell_copy(written, &parts, &insn, context);
	else if (insn.memory & INSN_MEMORY_READS)
		written->way = WRITTEN_NOT;
	else if (parts.store == INSN_STORE_GENERAL)
		put(written, operand_of(&parts, &insn, context, written->bytes), written->bytes);
	else if (parts.store >= INSN_STORE_VECTOR)
		stored_vector(written, &parts, context);
	else if (parts.space == SPACE_PLAIN)
		return tell_plain(written, &parts, &insn, context);
	else if (parts.space == SPACE_0F)
		return tell_0f(written, &parts, &insn, context);
	return 0; /* somehow, unless these knew more */
}

int written_tell_repeated(struct written *written, const uint8_t *code, size_t bytes,
			  const ucontext_t *context)
{
	struct insn insn;
	struct parts parts;
	uint8_t opcode;

	if (!bytes || !is_prefix(code[0])) /* most need no more than this look */
		return -1;
	if (decode(&insn, &parts, code, bytes, written))
		return -1;
	opcode = parts.opcode;
	if (!parts.repeat || parts.space != SPACE_PLAIN || !is_string(opcode))
		return -1;
	return tell_string(written, &parts, &insn, context);
}
