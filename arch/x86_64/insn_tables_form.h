/* SPDX-License-Identifier: MIT */
/*
 * Instructions composed field by field, to ask libzydis about. For insn_tables_make.c.
 *
 * Left out: what only the first Xeon Phi had (MVEX, jkzd and others by VEX). libzydis takes it for
 * valid; elsewhere it raises #UD.
 */
#ifndef ARCH_X86_64_INSN_TABLES_FORM_H
#define ARCH_X86_64_INSN_TABLES_FORM_H

#include <Zydis/Zydis.h>
#include <stdint.h>

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

int form_prepare(void);

/* 0: an instruction. */
int form_ask(struct answer *answer, const struct form *form);
int form_is_asked(const struct form *form);

#endif
