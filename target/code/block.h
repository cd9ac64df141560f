/* SPDX-License-Identifier: MIT */
/*
 * Code cut into blocks: from an instruction on, up to the first that may lead elsewhere
 * (abi/trail.h).
 *
 * The bytes of an instruction alone decide where it leads. Any thread may ask.
 */
#ifndef TARGET_CODE_BLOCK_H
#define TARGET_CODE_BLOCK_H

#include "abi/trail.h"

#include <stddef.h>
#include <stdint.h>

/* An instruction, as far as a trail asks. */
struct block_insn {
	uint64_t target; /* where the kind says one; else 0 */
	uint8_t bytes;
	uint8_t kind;	 /* enum trail_kind; TRAIL_FALL: only on */
	uint8_t repeats; /* a string instruction with rep: may be stepped through many times */
	uint8_t traits;	 /* INSN_*, for who steps */
};

#define INSN_PUSHES_FLAGS 1u
#define INSN_POPS_FLAGS 2u /* popf, iret */
#define INSN_TRAPS 4u	   /* int1: a SIGTRAP of the program's own */
#define INSN_SHADOWS 8u /* mov to ss: no trap comes before the instruction behind it has run, too */
/*
 * A hypervisor or the kernel may emulate it, and may then drop the trap that a step would raise
 * behind it. These are straight-line instructions that user mode may execute. Sources: Intel SDM,
 * volume 3, "Instructions That Cause VM Exits"; AMD APM, volume 2, "SVM Intercept Codes"; Linux,
 * arch/x86/kernel/umip.c.
 */
#define INSN_EMULATED 16u

/* Decode the instruction at code[left]. 0, or -EILSEQ: no valid instruction, or cut. */
int block_insn(struct block_insn *insn, uint64_t address, const uint8_t *code, size_t left);

/*
 * The same as one maker's processors take it: AMD's obey an operand size of 16 bits in a near
 * branch, which then has a shorter displacement and leads to an address of 16 bits; Intel's, which
 * block_insn() follows, ignore it.
 */
enum block_maker { BLOCK_INTEL, BLOCK_AMD };
int block_insn_of(struct block_insn *insn, enum block_maker maker, uint64_t address,
		  const uint8_t *code, size_t left);

/* Whose processor we run on. */
enum block_maker block_maker_here(void);

/* A block in the making, of instructions as they run. Zeroed: none yet. */
struct block_cut {
	struct trail_entry entry;
	uint8_t code[TRAIL_BLOCK_BYTES_MAX];
};

/*
 * Add the instruction at `address`, with the bytes code[], that ran. Do not add one that does not
 * follow the one before. Returns 1 when the block is complete, else 0.
 */
int block_cut_add(struct block_cut *cut, uint64_t address, const uint8_t *code,
		  const struct block_insn *insn);

#endif
