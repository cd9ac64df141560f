/* SPDX-License-Identifier: MIT */
/*
 * The tables insn_decode() reads: written by insn_tables_make.c, from what libzydis knows, when we
 * are built.
 *
 * From an opcode's space and number to a vector of contexts (its prefixes and widths), from there,
 * where ModRM says more than operands, to a choice by it, and at last to a leaf. All but leaves are
 * 16-bit words in insn_nodes[].
 */
#ifndef ARCH_X86_64_INSN_TABLES_H
#define ARCH_X86_64_INSN_TABLES_H

#include <stdint.h>

/* The opcode maps. 3DNow's opcode is its last byte. */
enum insn_space {
	INSN_PLAIN,
	INSN_0F,
	INSN_0F38,
	INSN_0F3A,
	INSN_3DNOW,
	INSN_VEX,		  /* VEX + mmmmm - 1: maps 1 to 3 */
	INSN_XOP = INSN_VEX + 3,  /* XOP + mmmmm - 8: maps 8 to 10 */
	INSN_EVEX = INSN_XOP + 3, /* EVEX + mmm - 1: maps 1 to 6 without 4 */
	INSN_SPACES = INSN_EVEX + 6,
};

/*
 * Contexts, as indices into a vector. Legacy: W | 66 << 1 | repeat << 2, where repeat is 0, 1 for
 * F3, 2 for F2, whichever comes last. VEX, XOP: W | pp << 1 | L << 3. EVEX: W | pp << 1; `valid`
 * has its other bits.
 */
#define INSN_CONTEXTS_LEGACY 12
#define INSN_CONTEXTS_VEX 16
#define INSN_CONTEXTS_EVEX 8

/*
 * What a word of a vector is: two bits of choice, and an index; of insn_leaves[], or else of
 * insn_nodes[].
 */
#define INSN_CHOICE_SHIFT 14
#define INSN_INDEX 0x3fffu
enum insn_choice {
	INSN_LEAF,	/* none */
	INSN_BY_FORM,	/* two words: memory, register */
	INSN_BY_REG,	/* 16: modrm.reg of memory, then of register */
	INSN_BY_REG_RM, /* 72: modrm.reg of memory, then modrm.reg << 3 | modrm.rm of register */
};

/* The use of the registers that the fields of an instruction name. Two bits each, in `roles`. */
enum insn_role { INSN_UNUSED, INSN_NEEDED, INSN_KILLED };
enum insn_field { INSN_REG, INSN_RM, INSN_VVVV, INSN_LOW, INSN_IS4, INSN_VSIB };
#define INSN_ROLE(leaf, field) ((unsigned int)(leaf)->roles >> 2 * (field)&3u)

/* Rules; those of the first group say what makes an instruction invalid. */
#define INSN_RULE_NO_LOCK 0x1u
#define INSN_RULE_NO_67 0x2u
#define INSN_RULE_NO_R 0x4u /* R, B, X extend the number of a register that there is not */
#define INSN_RULE_NO_B 0x8u /* B, X only where modrm.rm is a register */
#define INSN_RULE_NO_X 0x10u
#define INSN_RULE_NO_R2 0x20u /* EVEX's second R and V */
#define INSN_RULE_NO_V2 0x40u
#define INSN_RULE_NO_V3 0x80u /* the highest bit of vvvv */
#define INSN_RULE_NO_V 0x100u /* vvvv must be 0 */
#define INSN_RULE_SIB 0x200u  /* memory only by SIB */
#define INSN_RULE_NO_RIP 0x400u
#define INSN_RULE_REG_NOT_RM 0x800u /* two registers must not be one */
#define INSN_RULE_REG_NOT_V 0x1000u
#define INSN_RULE_RM_NOT_V 0x2000u
#define INSN_RULE_REG_NOT_INDEX 0x4000u
#define INSN_RULE_INDEX_NOT_V 0x8000u
#define INSN_RULES_REGISTERS                                                                       \
	(INSN_RULE_NO_R | INSN_RULE_NO_B | INSN_RULE_NO_X | INSN_RULE_NO_R2 | INSN_RULE_NO_V2 |    \
	 INSN_RULE_NO_V3 | INSN_RULE_NO_V | INSN_RULE_REG_NOT_RM | INSN_RULE_REG_NOT_V |           \
	 INSN_RULE_RM_NOT_V | INSN_RULE_REG_NOT_INDEX | INSN_RULE_INDEX_NOT_V)

#define INSN_RULE_MODRM 0x10000u
#define INSN_RULE_MOFFS 0x20000u /* its address is its immediate: 8 bytes, or 4 with a 67 prefix */
#define INSN_RULE_INT 0x40000u	 /* int n */
#define INSN_RULE_IDIOM 0x80000u /* xor, sub: with one register twice, that one is only written */
#define INSN_RULE_COUNTED                                                                          \
	0x100000u /* shifts by an immediate, and leaves the flags as they were if that is 0 */
#define INSN_RULE_SEGMENT 0x200000u  /* obeys fs and gs */
#define INSN_RULE_RELATIVE 0x400000u /* its immediate leads from its end to its target */
#define INSN_RULE_NEAR 0x800000u     /* a near branch: AMD's obey 66 */
#define INSN_RULE_POPS 0x1000000u
#define INSN_RULE_ADDRESS 0x2000000u  /* modrm's memory has a base and an index to be read */
#define INSN_RULE_REGISTER 0x4000000u /* modrm.mod is taken for 3 */
#define INSN_RULE_FOUR 0x8000000u /* vvvv names four vector registers, from a multiple of 4 on */
#define INSN_RULE_WIDE_ADDRESS 0x10000000u /* a 67 prefix changes nothing: MPX's */

struct insn_leaf {
	uint32_t rules;	       /* 0: no instruction */
	uint16_t traits;       /* INSN_* of insn.h */
	uint16_t needs, kills; /* whatever its fields say */
	uint16_t memory;       /* INSN_MEMORY_* of insn.h */
	uint8_t kind;
	uint8_t immediate; /* bytes behind ModRM, SIB and displacement */
	uint8_t roles;	   /* of INSN_REG to INSN_LOW */
	uint8_t narrow;	   /* bits of insn_field: a register of 8 bits */
	uint8_t vectors;   /* bits of insn_field: a vector register */
	uint8_t valid;	   /* EVEX: which of insn_valid[] */
};

extern const uint16_t
	insn_roots[INSN_SPACES]
		  [256]; /* where in insn_nodes[] an opcode's vector is; 0: no such opcode */
extern const uint16_t insn_nodes[];
extern const struct insn_leaf insn_leaves[];
/* One bit for each aaa != 0 | z << 1 | b << 2 | L'L << 3. */
extern const uint32_t insn_valid[];

#endif
