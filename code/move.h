/* SPDX-License-Identifier: MIT */
/*
 * Instructions moved to another place, so that they do there what they did at theirs.
 */
#ifndef CODE_MOVE_H
#define CODE_MOVE_H

#include "code/emit.h"

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

/* An instruction, decoded. */
struct move_insn {
	uint64_t address;
	const uint8_t *bytes;
	ZydisDecodedInstruction decoded;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
};

enum move_verdict {
	MOVE_CAN,  /* what follows it comes next */
	MOVE_LAST, /* nothing may follow: it doesn't go on, or it comes back to where it stood */
	MOVE_CANT, /* it reads where it stands, or must not be interrupted there */
};

/* Decode what stands at bytes[left]. False: no instruction. */
bool move_decode(struct move_insn *insn, uint64_t address, const uint8_t *bytes, size_t left);

enum move_verdict move_judge(const struct move_insn *insn);

/* Whether it does nothing at all, whatever its length. */
bool move_is_filler(const struct move_insn *insn);

/*
 * Write what does the same. One that is not MOVE_CANT; emit->err tells of want of room. A call becomes
 * a push of the address that it would have returned to, and a jump: who looks at its stack sees the
 * original, and nothing returns to the moved copy.
 */
void move_emit(struct emit *emit, const struct move_insn *insn);

#endif
