/* SPDX-License-Identifier: MIT */
#include "arch/insn.h"
#include "arch/x86_64/insn_tables.h"

#include <errno.h>

#define INT_LINUX32 0x80 /* int $0x80: the 32-bit system call */
/*
 * As far as is read before the length is known: 14 prefixes, EVEX, opcode, ModRM, SIB,
 * displacement.
 */
#define REACH 32
#define NO_REGISTER 0xffu

/* The parts of one that have been read. Bits as they count, not as VEX and EVEX invert them. */
struct reading {
	const uint8_t *code;
	const struct insn_leaf *leaf;
	uint8_t wide, is_66, repeat; /* W, 66; 1 for F3, 2 for F2 */
	uint8_t is_67, is_locked, segment, rex;
	uint8_t r, x, b; /* as added to a number: 8, and 16 for EVEX's second ones */
	uint8_t r2, v;
	uint8_t pp, l, way; /* as in insn_valid[] */
	uint8_t space, opcode, low;
	uint8_t opcode_at, modrm_at, disp_at;
	uint8_t mod, reg, rm, base, index;
	uint8_t at;
};

/* Prefixes, as bits of what they are. */
enum prefix { NOT_ONE, REX, SEGMENT, IGNORED, SIZE_66, SIZE_67, LOCK, REPEAT_F3, REPEAT_F2 };

static const uint8_t prefixes[256] = {
	[0x26] = IGNORED,   [0x2e] = IGNORED,	[0x36] = IGNORED, [0x3e] = IGNORED, [0x40] = REX,
	[0x41] = REX,	    [0x42] = REX,	[0x43] = REX,	  [0x44] = REX,	    [0x45] = REX,
	[0x46] = REX,	    [0x47] = REX,	[0x48] = REX,	  [0x49] = REX,	    [0x4a] = REX,
	[0x4b] = REX,	    [0x4c] = REX,	[0x4d] = REX,	  [0x4e] = REX,	    [0x4f] = REX,
	[0x64] = SEGMENT,   [0x65] = SEGMENT,	[0x66] = SIZE_66, [0x67] = SIZE_67, [0xf0] = LOCK,
	[0xf2] = REPEAT_F2, [0xf3] = REPEAT_F3,
};

/* A REX prefix counts right before the opcode alone. */
static void read_many_prefixes(struct reading *read)
{
	for (; read->at < INSN_BYTES_MAX; read->at++) {
		uint8_t byte = read->code[read->at];
		uint8_t prefix = prefixes[byte];

		if (prefix == NOT_ONE)
			return;
		read->rex = 0;
		switch (prefix) {
		case REX:
			read->rex = byte;
			break;
		case SEGMENT:
			read->segment = byte;
			break;
		case SIZE_66:
			read->is_66 = 1;
			break;
		case SIZE_67:
			read->is_67 = 1;
			break;
		case LOCK:
			read->is_locked = 1;
			break;
		case REPEAT_F3:
			read->repeat = 1;
			break;
		case REPEAT_F2:
			read->repeat = 2;
			break;
		default:
			break;
		}
	}
}

/* None, or a REX: so most begin. */
static void read_prefixes(struct reading *read)
{
	uint8_t is_rex = (read->code[0] & 0xf0) == 0x40;

	if (prefixes[read->code[is_rex]] != NOT_ONE) {
		read_many_prefixes(read);
		return;
	}
	read->rex = is_rex ? read->code[0] : 0;
	read->at = is_rex;
}

static void read_rex(struct reading *read)
{
	read->wide = read->rex >> 3 & 1;
	read->r = (read->rex & 4u) << 1;
	read->x = (read->rex & 2u) << 2;
	read->b = (read->rex & 1u) << 3;
}

/* C5, C4, 8F: up to the opcode. 0, or -1: no such map. */
static int read_vex(struct reading *read)
{
	const uint8_t *at = read->code + read->at;
	unsigned int map = at[1] & 31, last = at[2];

	read->r = (~at[1] & 0x80u) >> 4;
	if (at[0] == 0xc5) {
		map = 1;
		last = at[1] & 0x7f;
		read->at += 2;
	} else {
		read->x = (~at[1] & 0x40u) >> 3;
		read->b = (~at[1] & 0x20u) >> 2;
		read->at += 3;
	}
	read->wide = last >> 7;
	read->v = ~last >> 3 & 15;
	read->l = last >> 2 & 1;
	read->pp = last & 3;
	if (at[0] == 0x8f) {
		read->space = (uint8_t)(INSN_XOP + map - 8);
		return map >= 8 && map <= 10 ? 0 : -1;
	}
	read->space = (uint8_t)(INSN_VEX + map - 1);
	return map >= 1 && map <= 3 ? 0 : -1;
}

static int read_evex(struct reading *read)
{
	const uint8_t *at = read->code + read->at;
	unsigned int map = at[1] & 7;

	/* Bit 3 of the first, and a cleared bit 2 of the second, mean nothing known to us. */
	if (at[1] & 8 || !(at[2] & 4) || !map || map > 6)
		return -1;
	read->space = (uint8_t)(INSN_EVEX + map - 1);
	read->r = (~at[1] & 0x80u) >> 4;
	read->x = (~at[1] & 0x40u) >> 3;
	read->b = (~at[1] & 0x20u) >> 2;
	read->r2 = ~at[1] & 0x10u;
	read->wide = at[2] >> 7;
	read->pp = at[2] & 3;
	read->v = (~at[2] >> 3 & 15) | (~at[3] & 8u) << 1;
	read->way = (uint8_t)((at[3] & 7) != 0) | (at[3] >> 7) << 1 | (at[3] >> 4 & 1) << 2 |
		    (at[3] >> 5 & 3) << 3;
	read->at += 4;
	return 0;
}

/* 1: the opcode is of VEX, EVEX or XOP, whose head has been read; 0: it is not; -1: invalid. */
static int read_head(struct reading *read)
{
	const uint8_t *at = read->code + read->at;

	switch (at[0]) {
	case 0xc4:
	case 0xc5:
		break;
	case 0x8f: /* a pop, else */
		if ((at[1] & 31) < 8)
			return 0;
		break;
	case 0x62:
		break;
	default:
		return 0;
	}
	if (read->rex || read->is_66 || read->repeat || read->is_locked)
		return -1;
	if (at[0] == 0x62 ? read_evex(read) : read_vex(read))
		return -1;
	read->opcode = read->code[read->at];
	return 1;
}

static void read_legacy(struct reading *read)
{
	uint8_t byte = read->code[read->at];

	read_rex(read);
	if (byte != 0x0f) {
		/* 90 is no exchange, but with B. */
		read->opcode = byte == 0x90 && read->b ? 0x91 : byte;
		read->space = INSN_PLAIN;
		return;
	}
	byte = read->code[++read->at];
	read->space = byte == 0x38   ? INSN_0F38
		      : byte == 0x3a ? INSN_0F3A
		      : byte == 0x0f ? INSN_3DNOW
				     : INSN_0F;
	if (read->space != INSN_0F && read->space != INSN_3DNOW)
		byte = read->code[++read->at];
	read->opcode = byte;
}

static void read_modrm(struct reading *read)
{
	uint8_t byte = read->code[read->at];

	read->modrm_at = read->at++;
	read->mod = byte >> 6;
	read->reg = byte >> 3 & 7;
	read->rm = byte & 7;
}

/* SIB and displacement. */
static void read_memory(struct reading *read)
{
	uint8_t low = read->rm;

	read->base = (uint8_t)(read->rm | read->b);
	read->index = NO_REGISTER;
	if (read->rm == 4) {
		uint8_t sib = read->code[read->at++];

		low = sib & 7;
		read->base = (uint8_t)(low | read->b);
		read->index = (uint8_t)((sib >> 3 & 7) | read->x);
	}
	if (read->mod == 1)
		read->at += 1;
	if (read->mod == 2)
		read->at += 4;
	if (read->mod == 0 && low == 5) {
		read->base = NO_REGISTER;
		if (read->rm == 5)
			read->disp_at = read->at;
		read->at += 4;
	}
}

static uint16_t word_here(const struct reading *read, uint8_t opcode)
{
	uint32_t root = insn_roots[read->space][opcode];
	uint32_t context = read->wide;

	if (!root)
		return 0;
	if (read->space >= INSN_VEX)
		context |= read->pp << 1 | read->l << 3;
	else
		context |= read->is_66 << 1 | read->repeat << 2;
	return insn_nodes[root + context];
}

static const struct insn_leaf *choose(const struct reading *read, uint16_t word)
{
	const uint16_t *at = insn_nodes + (word & INSN_INDEX);
	unsigned int is_register = read->mod == 3;

	switch (word >> INSN_CHOICE_SHIFT) {
	case INSN_BY_FORM:
		return insn_leaves + at[is_register];
	case INSN_BY_REG:
		return insn_leaves + at[is_register << 3 | read->reg];
	case INSN_BY_REG_RM:
		at += is_register ? 8 + (read->reg << 3 | read->rm) : read->reg;
		return insn_leaves + *at;
	default:
		return insn_leaves + (word & INSN_INDEX);
	}
}

/* 3DNow's opcode comes last: where, depends on nothing else. */
static void read_3dnow(struct reading *read)
{
	read->at++;
	read_modrm(read);
	if (read->mod != 3)
		read_memory(read);
	read->opcode_at = read->at;
	read->leaf = choose(read, word_here(read, read->code[read->at]));
}

static void read_operands(struct reading *read)
{
	uint16_t word = word_here(read, read->opcode);

	read->opcode_at = read->at++;
	if (word >> INSN_CHOICE_SHIFT || insn_leaves[word].rules & INSN_RULE_MODRM)
		read_modrm(read);
	read->leaf = choose(read, word);
	if (read->leaf->rules & INSN_RULE_REGISTER)
		read->mod = 3;
	if (read->modrm_at && read->mod != 3)
		read_memory(read);
}

static unsigned int reg_number(const struct reading *read)
{
	return read->reg | read->r | read->r2;
}

/* Of a vector register: for a general one X does not count. */
static unsigned int rm_number(const struct reading *read)
{
	return read->rm | read->b | (read->space >= INSN_EVEX ? read->x << 1 : 0);
}

/* A gather's index, which is a vector register. */
static unsigned int index_number(const struct reading *read)
{
	return read->index | (read->v & 16);
}

static int has_twins(const struct reading *read, uint32_t rules)
{
	unsigned int reg = reg_number(read), v = read->v;

	if (rules & INSN_RULE_REG_NOT_V && reg == v)
		return 1;
	if (read->mod == 3)
		return (rules & INSN_RULE_REG_NOT_RM && reg == rm_number(read)) ||
		       (rules & INSN_RULE_RM_NOT_V && rm_number(read) == v);
	return (rules & INSN_RULE_REG_NOT_INDEX && reg == index_number(read)) ||
	       (rules & INSN_RULE_INDEX_NOT_V && index_number(read) == v);
}

static int names_no_register(const struct reading *read, uint32_t rules)
{
	unsigned int v = read->leaf->vectors & 1u << INSN_VSIB ? read->v & 15 : read->v;

	if ((rules & INSN_RULE_NO_R && read->r) || (rules & INSN_RULE_NO_R2 && read->r2) ||
	    (rules & INSN_RULE_NO_V && v & 15) || (rules & INSN_RULE_NO_V2 && v & 16) ||
	    (rules & INSN_RULE_NO_V3 && v & 8))
		return 1;
	if (read->mod == 3 &&
	    ((rules & INSN_RULE_NO_B && read->b) || (rules & INSN_RULE_NO_X && read->x)))
		return 1;
	return has_twins(read, rules);
}

static int is_valid(const struct reading *read)
{
	uint32_t rules = read->leaf->rules;

	if (read->leaf == insn_leaves)
		return 0;
	if ((read->is_locked && rules & INSN_RULE_NO_LOCK) ||
	    (read->is_67 && rules & INSN_RULE_NO_67))
		return 0;
	if (rules & INSN_RULES_REGISTERS && names_no_register(read, rules))
		return 0;
	if (read->space >= INSN_EVEX && !(insn_valid[read->leaf->valid] >> read->way & 1))
		return 0;
	return read->mod == 3 || !((rules & INSN_RULE_SIB && read->rm != 4) ||
				   (rules & INSN_RULE_NO_RIP && read->disp_at));
}

struct uses {
	unsigned int needs, kills;
	unsigned int
		is_old; /* no REX: four registers of 8 bits are the second bytes of four others */
};

static void add_role(struct uses *uses, const struct insn_leaf *leaf, int field,
		     unsigned int number)
{
	unsigned int role = INSN_ROLE(leaf, field);
	unsigned int second = (unsigned int)leaf->narrow >> field & uses->is_old & number >> 2;
	unsigned int bit = 1u << (number - 4 * second);

	uses->needs |= bit & -(role & 1);
	uses->kills |= bit & -(role >> 1);
}

static void add_address(struct uses *uses, const struct reading *read)
{
	if (read->base != NO_REGISTER)
		uses->needs |= 1u << read->base;
	if (read->index < 16 && read->index != 4 && !(read->leaf->vectors & 1u << INSN_VSIB))
		uses->needs |= 1u << read->index;
}

static void tell_registers(struct insn *insn, const struct reading *read)
{
	const struct insn_leaf *leaf = read->leaf;
	struct uses uses = { leaf->needs, leaf->kills, !read->rex && read->space < INSN_VEX };

	add_role(&uses, leaf, INSN_REG, read->reg | read->r);
	add_role(&uses, leaf, INSN_LOW, read->low | read->b);
	add_role(&uses, leaf, INSN_VVVV, read->v & 15);
	if (read->mod == 3) {
		add_role(&uses, leaf, INSN_RM, read->rm | read->b);
		if (leaf->rules & INSN_RULE_IDIOM && read->reg == read->rm && read->r == read->b) {
			uses.needs = 0;
			uses.kills = 1u << (read->reg | read->r);
		}
	} else if (leaf->rules & INSN_RULE_ADDRESS) {
		add_address(&uses, read);
	}
	insn->needs = (uint16_t)uses.needs;
	insn->kills = (uint16_t)(uses.kills & ~uses.needs);
}

static int names_vector15(const struct reading *read)
{
	unsigned int vectors = read->leaf->vectors;
	unsigned int v = read->leaf->rules & INSN_RULE_FOUR ? read->v | 3 : read->v;

	return (vectors & 1u << INSN_REG && reg_number(read) == 15) ||
	       (vectors & 1u << INSN_RM && read->mod == 3 && rm_number(read) == 15) ||
	       (vectors & 1u << INSN_VVVV && v == 15) ||
	       (vectors & 1u << INSN_IS4 && read->code[read->at] >> 4 == 15) ||
	       (vectors & 1u << INSN_VSIB && index_number(read) == 15);
}

static uint16_t traits_of(const struct reading *read)
{
	const struct insn_leaf *leaf = read->leaf;
	uint16_t traits = leaf->traits;

	if (leaf->vectors && names_vector15(read))
		traits |= INSN_VECTOR15;
	if (read->segment == 0x65 && leaf->rules & INSN_RULE_SEGMENT)
		traits |= INSN_GS;
	if (leaf->rules & INSN_RULE_COUNTED &&
	    !(read->code[read->at] & (read->wide && read->opcode != 0xc0 ? 63 : 31)))
		traits = (uint16_t)((traits & ~INSN_KILLS_FLAGS) | INSN_READS_FLAGS);
	return traits;
}

static uint64_t displacement(const uint8_t *at, unsigned int bytes)
{
	uint32_t word = at[0];

	if (bytes == 1)
		return (uint64_t)(int8_t)word;
	word |= (uint32_t)at[1] << 8;
	if (bytes == 2)
		return (uint64_t)(int16_t)word;
	return (uint64_t)(int32_t)(word | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

static unsigned int immediate_bytes(const struct reading *read, int amd)
{
	const struct insn_leaf *leaf = read->leaf;

	if (leaf->rules & INSN_RULE_MOFFS && read->is_67)
		return 4;
	if (amd && leaf->rules & INSN_RULE_NEAR && leaf->immediate == 4 && read->is_66 &&
	    !read->wide)
		return 2;
	return leaf->immediate;
}

static void tell_target(struct insn *insn, const struct reading *read, uint64_t address, int amd)
{
	unsigned int bytes = insn->bytes - read->at;

	insn->target = address + insn->bytes + displacement(read->code + read->at, bytes);
	if (amd && read->is_66 && !read->wide)
		insn->target &= 0xffff;
	if (bytes == 4)
		insn->disp_at = read->at;
}

static void fill(struct insn *insn, const struct reading *read, unsigned int bytes,
		 uint64_t address, int amd)
{
	const struct insn_leaf *leaf = read->leaf;

	insn->target = 0;
	insn->bytes = (uint8_t)bytes;
	insn->kind = leaf->kind;
	insn->opcode_at = read->opcode_at;
	insn->modrm_at = read->modrm_at;
	insn->disp_at = read->disp_at;
	insn->rex = read->rex;
	insn->segment = leaf->rules & INSN_RULE_SEGMENT ? read->segment : 0;
	insn->is_short_address = read->is_67 && !(leaf->rules & INSN_RULE_WIDE_ADDRESS);
	insn->pops = leaf->rules & INSN_RULE_POPS
			     ? (uint16_t)(read->code[read->at] | read->code[read->at + 1] << 8)
			     : 0;
	insn->memory = leaf->memory;
	insn->traits = traits_of(read);
	tell_registers(insn, read);
	if (leaf->rules & INSN_RULE_RELATIVE)
		tell_target(insn, read, address, amd);
	if (leaf->rules & INSN_RULE_INT && read->code[read->at] == INT_LINUX32)
		insn->kind = TRAIL_SYSCALL;
}

static int decode(struct insn *insn, const uint8_t *code, size_t left, uint64_t address, int amd)
{
	struct reading read = { .code = code };
	unsigned int bytes;
	int has_head;

	read_prefixes(&read);
	if (read.at == INSN_BYTES_MAX)
		return -EILSEQ;
	has_head = read_head(&read);
	if (has_head < 0)
		return -EILSEQ;
	if (!has_head)
		read_legacy(&read);
	read.low = code[read.at] & 7;
	if (read.space == INSN_3DNOW)
		read_3dnow(&read);
	else
		read_operands(&read);
	bytes = read.at + immediate_bytes(&read, amd);
	if (bytes > INSN_BYTES_MAX || bytes > left || !is_valid(&read))
		return -EILSEQ;
	fill(insn, &read, bytes, address, amd);
	return 0;
}

int insn_decode(struct insn *insn, const uint8_t *code, size_t left, uint64_t address, int amd)
{
	uint8_t whole[REACH];

	if (left >= REACH)
		return decode(insn, code, left, address, amd);
	for (size_t i = 0; i < REACH; i++)
		whole[i] = i < left ? code[i] : 0;
	return decode(insn, whole, left, address, amd);
}
