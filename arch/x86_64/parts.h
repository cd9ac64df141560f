/* SPDX-License-Identifier: MIT */
/* An instruction that written.c has taken apart. Hit path. */
#ifndef ARCH_X86_64_PARTS_H
#define ARCH_X86_64_PARTS_H

#include <stdint.h>
#include <ucontext.h>

/* SPACE_STRANGE: XOP, and EVEX encodings that store nothing or that extent_evex() does not know. */
enum space {
	SPACE_PLAIN,
	SPACE_0F,
	SPACE_VEX,
	SPACE_EVEX,
	SPACE_SCATTER,
	SPACE_OTHER,
	SPACE_STRANGE,
};

/* An instruction taken apart. */
struct parts {
	const uint8_t *code;
	const uint8_t *head; /* of SPACE_EVEX and SPACE_SCATTER */
	unsigned int bytes;
	enum space space;
	uint8_t opcode, modrm;
	uint8_t w, r, x, b; /* as REX has them, each 0 or 1; with EVEX, r has two bits */
	uint8_t is_locked;
	uint8_t is_narrow; /* 66 */
	uint8_t repeat;	   /* f2, f3; 0 */
	uint8_t is_long;   /* VEX.L */
	uint8_t is_vex_0f38, is_vex_0f3a;
	uint8_t vector; /* the register that VEX.vvvv names */
	uint8_t extent; /* of SPACE_EVEX */
	uint8_t unit;	/* of SPACE_EVEX: displacements of one byte count in those */
	unsigned int imm_at;
	uint8_t base, index; /* registers of the address; 0xff: none */
};

struct insn;

/* Take a decoded instruction apart. `code` is kept. */
void parts_take(struct parts *parts, const struct insn *insn, const uint8_t *code);

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
