/* SPDX-License-Identifier: MIT */
/*
 * An instruction, as far as the translator asks: its length, where it may lead, what depends on its
 * address, and which registers it needs and kills. As far as watches ask: what it stores.
 *
 * Read through tables that are made of libzydis when we are built (x86_64/insn_tables_make.c):
 * inside of a program there is no room for a library, nor for a microsecond an instruction. Calls
 * nothing, keeps nothing; any thread, any signal context.
 */
#ifndef ARCH_INSN_H
#define ARCH_INSN_H

#include "abi/trail.h"

#include <stddef.h>
#include <stdint.h>

#define INSN_BYTES_MAX 15

/* The translator's work on it, besides the copy. */
#define INSN_VECTOR15 0x0001u /* names xmm15, ymm15 or zmm15, as index of a gather too */
#define INSN_VECTORS                                                                               \
	0x0002u /* saves, loads or clears whole vector files: fxsave, xrstor, vzeroall */
#define INSN_ZEROUPPER 0x0004u /* vzeroupper */
#define INSN_GS 0x0008u	       /* uses or sets the gs segment or its base */
#define INSN_TELLS_IP                                                                              \
	0x0010u /* stores the address of the last x87 instruction: fnstenv, fnsave, fxsave, xsave */
#define INSN_SHORT                                                                                 \
	0x0020u /* a TRAIL_BRANCH with only 8 bits of displacement: loop, loope, jrcxz ... */
#define INSN_TRANSACTION 0x0040u /* xbegin, xend, xabort, xtest */
#define INSN_READS_FLAGS                                                                           \
	0x0080u /* any of CF PF AF ZF SF OF, or all, as pushf; or may leave some as they were */
#define INSN_KILLS_FLAGS 0x0100u /* sets all six or leaves them undefined, whatever they were */
#define INSN_STRING 0x0200u	 /* rep movs and the like: may be interrupted and continue */
#define INSN_SHADOWS 0x0400u	 /* mov to ss, pop ss: no trap comes behind it */
#define INSN_PUSHES_FLAGS 0x0800u
#define INSN_POPS_FLAGS 0x1000u /* popf, iret */
#define INSN_DIRECTION 0x2000u	/* std, cld */

/* In `memory`. Not set for gathers, XOP, 3DNow, and those of EVEX that write none. */
#define INSN_MEMORY_BYTES                                                                          \
	0x7fu /* all of them, each time it runs, unless a mask excludes some; 0: unknown */
#define INSN_MEMORY_READS 0x80u	     /* and writes none */
#define INSN_MEMORY_STORE_SHIFT 8    /* 4 bits: enum insn_store */
#define INSN_MEMORY_ELEMENT_SHIFT 12 /* 2 bits: log2 of the bytes that one bit of a mask selects */
/* EVEX: the bytes with 128 bits of vector; twice as many with 256, then four times */
#define INSN_MEMORY_SCALES 0x4000u

/* Where a store takes its bytes from. */
enum insn_store {
	INSN_STORE_OTHER,    /* no store, or one that written.c reads by its opcode */
	INSN_STORE_GENERAL,  /* the general register in modrm.reg */
	INSN_STORE_COPY,     /* movdir64b: ModRM's operand; it stores where modrm.reg points */
	INSN_STORE_SCATTER,  /* an element for each index; the number of bytes is that of one */
	INSN_STORE_VECTOR,   /* from here on, the vector register in modrm.reg: its first bytes */
	INSN_STORE_HIGH,     /* its bytes 8 to 15 */
	INSN_STORE_EXTRACT,  /* the part that the immediate numbers */
	INSN_STORE_COMPRESS, /* the elements that the mask selects, side by side */
	INSN_STORE_CONVERT,  /* its elements, converted */
	INSN_STORE_SIGNS,    /* the elements whose counterpart in another register is negative */
};

struct insn {
	uint64_t target; /* where TRAIL_JUMP, TRAIL_BRANCH, TRAIL_CALL lead; else 0 */
	/* general registers by their numbers: any part of them may be read, or be left as it was */
	uint16_t needs;
	/* whole registers written whenever it runs, whatever was in them; none of `needs` */
	uint16_t kills;
	uint16_t traits; /* INSN_* */
	uint8_t bytes;
	uint8_t kind;	   /* enum trail_kind; TRAIL_FALL: only on */
	uint8_t opcode_at; /* the opcode's last byte */
	uint8_t modrm_at;  /* 0: it has none */
	/*
	 * of a displacement of 32 bits that counts from the instruction's end; 0: none. Also those
	 * of branches
	 */
	uint8_t disp_at;
	uint8_t rex;		  /* the REX prefix that counts; 0: none */
	uint8_t segment;	  /* 0x64, 0x65: the override that counts; 0: none that matters */
	uint8_t is_short_address; /* a 67 prefix: addresses of 32 bits */
	uint16_t pops;		  /* of `ret n`: n */
	/*
	 * access to the memory operand of ModRM, and to maskmovdqu's: INSN_MEMORY_*; 0: none, or
	 * unknown
	 */
	uint16_t memory;
};

/*
 * Decode the instruction at code[left], whose address is `address`, in 64-bit mode. `amd`: use
 * AMD's reading of an operand size of 16 bits in a near branch (target/code/block.h). 0; or
 * -EILSEQ: the tables do not have it, or it is cut. *insn is then unchanged.
 */
int insn_decode(struct insn *insn, const uint8_t *code, size_t left, uint64_t address, int amd);

#endif
