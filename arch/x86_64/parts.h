/* SPDX-License-Identifier: MIT */
/* An instruction that written.c has taken apart. Hit path. */
#ifndef ARCH_X86_64_PARTS_H
#define ARCH_X86_64_PARTS_H

#include <stdint.h>
#include <ucontext.h>

/* The opcode maps that written.c reads by opcode. */
enum space { SPACE_PLAIN, SPACE_0F, SPACE_OTHER };

/* An instruction taken apart. */
struct parts {
	const uint8_t *code;
	enum space space;
	uint8_t opcode, modrm;
	uint8_t w, r, x, b; /* as REX has them, each 0 or 1; with EVEX, r has two bits */
	uint8_t is_locked;
	uint8_t is_narrow; /* a 66 prefix */
	uint8_t repeat;	   /* an f2 or f3 prefix, or 0 */
	uint8_t store;	   /* enum insn_store */
	uint8_t extent;	   /* bytes in memory; 0: unknown */
	uint8_t element;   /* what one bit of a mask selects */
	uint8_t all;	   /* bytes of the vector register */
	uint8_t reg;	   /* the register in modrm.reg */
	uint8_t vector;	   /* the register in vvvv */
	uint8_t mask;	   /* EVEX's mask register; 0: none */
	uint8_t unit;	   /* displacements of one byte count in those */
	unsigned int imm_at;
	uint8_t base, index; /* registers of the address; 0xff: none */
	uint8_t scale;	     /* log2 of the index's factor */
};

struct insn;

/* Take a decoded instruction apart. `code` is kept. */
void written_parts_take(struct parts *parts, const struct insn *insn, const uint8_t *code);

static inline uint64_t reg_of(const ucontext_t *context, unsigned int number)
{
	static const uint8_t places[16] = {
		REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8,	 REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};

	return (uint64_t)context->uc_mcontext.gregs[places[number & 15]];
}

static inline int64_t signed_at(const uint8_t *code, unsigned int bytes)
{
	int8_t byte;
	int16_t two;
	int32_t four;

	switch (bytes) {
	case 1:
		__builtin_memcpy(&byte, code, sizeof byte);
		return byte;
	case 2:
		__builtin_memcpy(&two, code, sizeof two);
		return two;
	default:
		__builtin_memcpy(&four, code, sizeof four);
		return four;
	}
}

#endif
