/* SPDX-License-Identifier: MIT */
#include "inside/engine/liveness.h"
#include "arch/insn.h"
#include "inside/engine/ranges.h"

#define LOOK_INSTRUCTIONS 24u
#define LOOK_BRANCHES 3u

struct look {
	uint32_t dead, needed;
};

/*
 * Whether a handler may resume elsewhere after a fault here, with unchanged registers. Java and its
 * like handle null pointers and divisions by 0 so. The stack, and what has an address in the code,
 * are assumed to be mapped.
 */
static int may_fault(const struct insn *insn, const uint8_t *code)
{
	uint8_t opcode = code[insn->opcode_at], modrm = code[insn->modrm_at];

	if (insn->traits & INSN_STRING)
		return 1;
	if (!insn->modrm_at)
		return 0;
	if ((opcode == 0xf6 || opcode == 0xf7) && (modrm & 0x30) == 0x30) /* div, idiv */
		return 1;
	if (modrm >= 0xc0 || insn->disp_at || opcode == 0x8d)
		return 0;
	return (modrm & 7) != 4 || (code[insn->modrm_at + 1] & 7) != 4 || insn->rex & 1;
}

static void insn_use(struct look *look, const struct insn *insn, const uint8_t *code)
{
	if (may_fault(insn, code))
		look->needed |= ~look->dead & ~LIVENESS_FLAGS;
	look->needed |= insn->needs & ~look->dead;
	if (insn->traits & INSN_READS_FLAGS)
		look->needed |= LIVENESS_FLAGS & ~look->dead;
	look->dead |= insn->kills & ~look->needed;
	if (insn->traits & INSN_KILLS_FLAGS)
		look->dead |= LIVENESS_FLAGS & ~look->needed;
}

static uint32_t dead_from(struct code_read *read, uint64_t pc, uint32_t instructions,
			  uint32_t branches)
{
	struct look look = { 0, 0 };

	while (instructions--) {
		uint64_t left = ranges_left(pc);
		struct code_bytes bytes;
		struct insn insn;

		/* only what can't change: the result stays true without a guard */
		if (!left || ranges_flags(pc) != RANGE_FILE ||
		    code_read_insn(read, &insn, pc, left, CODE_AHEAD, &bytes))
			return look.dead;
		insn_use(&look, &insn, bytes.code);
		if (insn.kind == TRAIL_BRANCH) {
			uint32_t both;

			if (!branches || (insn.traits & INSN_TRANSACTION))
				return look.dead;
			branches--;
			both = dead_from(read, pc + insn.bytes, instructions / 2, branches);
			if (both & ~look.needed)
				both &= dead_from(read, insn.target, instructions / 2, branches);
			return look.dead | (both & ~look.needed);
		}
		if (insn.kind == TRAIL_JUMP || insn.kind == TRAIL_CALL)
			pc = insn.target;
		else if (insn.kind == TRAIL_FALL)
			pc += insn.bytes;
		else
			return look.dead;
	}
	return look.dead;
}

uint32_t liveness_dead(struct code_read *read, uint64_t pc)
{
	return dead_from(read, pc, LOOK_INSTRUCTIONS, LOOK_BRANCHES);
}
