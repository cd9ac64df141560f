/* SPDX-License-Identifier: MIT */
/*
 * Instructions moved to another place, so that they do there what they did at theirs.
 */
#ifndef TARGET_CODE_MOVE_H
#define TARGET_CODE_MOVE_H

#include "target/code/emit.h"

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
	MOVE_LAST, /* nothing may follow: it doesn't fall through, or returns to its old place */
	MOVE_CANT, /* it depends on its own address, or must not be interrupted there */
};

/* Decode the instruction at bytes[left]. False: no instruction. */
bool move_decode(struct move_insn *insn, uint64_t address, const uint8_t *bytes, size_t left);

enum move_verdict move_judge(const struct move_insn *insn);

/* Whether it does nothing at all, whatever its length. */
bool move_is_filler(const struct move_insn *insn);

/*
 * Write code that does the same as an instruction that is not MOVE_CANT; emit->err says if room is
 * lacking. A call becomes a push of the original return address, and a jump. So a stack walk sees
 * the original, and nothing returns to the moved copy.
 */
void move_emit(struct emit *emit, const struct move_insn *insn);

#endif
