/* SPDX-License-Identifier: MIT */
#include "arch/x86_64/operand.h"

#include "arch/insn.h"
#include "arch/x86_64/parts.h"

#define PAGE_BYTES 4096u
#define BACK_MAX 8u /* instructions */
#define NO_REGISTER 16u

/* How an instruction fills a register as a whole. */
struct filling {
	unsigned int width;  /* bytes that it writes; of 4, the others become 0 */
	unsigned int source; /* a register; or NO_REGISTER: it is `number` */
	uint64_t number;
	int is_loaded; /* from where `source` points, and `number` bytes further */
};

/* `mov DISPLACEMENT(REGISTER), ...`, as of a local variable. 0; -1: another address. */
static int load_of(const struct parts *parts, const struct insn *insn, unsigned int base,
		   struct filling *filling)
{
	unsigned int mod = parts->modrm >> 6, at = insn->modrm_at + 1u;

	if ((base & 7) == 4 && (parts->code[at++] != 0x24 || parts->x))
		return -1;
	if (insn->segment || insn->is_short_address || (!mod && (base & 7) == 5))
		return -1;
	filling->source = base;
	filling->is_loaded = 1;
	if (mod)
		filling->number = (uint64_t)signed_at(parts->code + at, mod == 1 ? 1 : 4);
	return 0;
}

/* `mov $NUMBER, REGISTER`, `mov SOURCE, REGISTER`, `xor REGISTER, REGISTER`. 0; -1: another one. */
static int filling_of(const struct parts *parts, const struct insn *insn, unsigned int wanted,
		      struct filling *filling)
{
	unsigned int low = (parts->modrm & 7u) | (unsigned int)parts->b << 3;
	unsigned int high = (parts->modrm >> 3 & 7u) | (unsigned int)parts->r << 3;
	int is_register = insn->modrm_at && parts->modrm >> 6 == 3;
	const uint8_t *behind = parts->code + insn->opcode_at + 1;

	*filling = (struct filling){ .width = parts->w		 ? 8
					      : parts->is_narrow ? 2
								 : 4,
				     .source = NO_REGISTER };
	if (parts->space != SPACE_PLAIN)
		return -1;
	if (parts->opcode >= 0xb8 && parts->opcode <= 0xbf) {
		if (((parts->opcode & 7u) | (unsigned int)parts->b << 3) != wanted)
			return -1;
		if (filling->width == 8)
			__builtin_memcpy(&filling->number, behind, 8);
		else
			filling->number = (uint64_t)signed_at(behind, filling->width);
		return 0;
	}
	if (parts->opcode == 0x8b && !is_register && high == wanted)
		return load_of(parts, insn, low, filling);
	if (!is_register)
		return -1;
	if (parts->opcode == 0xc7 && !(parts->modrm >> 3 & 7) && low == wanted)
		filling->number = (uint64_t)signed_at(behind + 1, filling->width);
	else if (parts->opcode == 0x89 && low == wanted)
		filling->source = high;
	else if (parts->opcode == 0x8b && high == wanted)
		filling->source = low;
	else if (!((parts->opcode == 0x31 || parts->opcode == 0x33) && low == high &&
		   low == wanted))
		return -1;
	return filling->source == wanted ? -1 : 0;
}

static int filling_value(const struct filling *filling, const ucontext_t *context,
			 const struct access_decode_reads *reads, uint64_t *value)
{
	uint64_t base = filling->source == NO_REGISTER ? 0 : reg_of(context, filling->source);

	*value = filling->source == NO_REGISTER ? filling->number : base;
	if (filling->is_loaded) {
		*value = 0;
		if (!reads->memory ||
		    reads->memory(reads->data, value, base + filling->number, filling->width))
			return -1;
	}
	if (filling->width == 4)
		*value = (uint32_t)*value;
	return 0;
}

int operand_before(uint64_t *value, const struct written *exchange, uint64_t at,
		   const ucontext_t *context, const struct access_decode_reads *reads)
{
	unsigned int wanted = exchange->operand, touched = 0;
	uint64_t page = at / PAGE_BYTES, end = at;

	for (unsigned int i = 0; i < BACK_MAX; i++) {
		uint8_t room[INSN_BYTES_MAX];
		struct filling filling;
		struct insn insn;
		struct parts parts;
		int is_start = 0;
		unsigned int bytes = reads->before(reads->data, end, &is_start);
		const uint8_t *code;

		if (!bytes || is_start)
			return -1;
		end -= bytes;
		code = reads->code(reads->data, end, bytes, end / PAGE_BYTES == page, room);
		if (!code || insn_decode(&insn, code, bytes, end, 0) || insn.kind != TRAIL_FALL)
			return -1;
		if (!((insn.needs | insn.kills) >> wanted & 1)) {
			touched |= (unsigned int)insn.needs | insn.kills;
			continue;
		}
		written_parts_take(&parts, &insn, code);
		if (filling_of(&parts, &insn, wanted, &filling) ||
		    (filling.width < 4 && exchange->bytes > filling.width))
			return -1;
		if (filling.source != NO_REGISTER && touched >> filling.source & 1)
			return -1;
		return filling_value(&filling, context, reads, value);
	}
	return -1;
}
