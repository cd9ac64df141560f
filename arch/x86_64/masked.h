/* SPDX-License-Identifier: MIT */
/*
 * Stores that write only the bytes that a mask selects. On AMD's Zen 5 a debug register also fires
 * for the bytes that the mask excludes. SDM volume 2, 2.7.5. Hit path.
 *
 * *kept gets a bit for each byte that the mask excluded, from the address on. The functions return
 * -1, with *kept 0, where the frame does not have the mask: the store may have written all bytes.
 */
#ifndef ARCH_X86_64_MASKED_H
#define ARCH_X86_64_MASKED_H

#include <stdint.h>
#include <ucontext.h>

/*
 * How many bytes one bit of the mask selects, in the store with an EVEX prefix at `head`. 0: the
 * store takes no mask, or clears its mask (scatters).
 */
unsigned int masked_element(const uint8_t *head, uint8_t opcode);

/*
 * vpcompressd and the like: they store the selected elements side by side. True for scatters too.
 */
int masked_is_compress(const uint8_t *head);

/*
 * vpmovqb and the like, which store elements narrowed: how many bytes each has in memory, and how
 * many times that it has in the register. 0: another instruction.
 */
unsigned int masked_narrowed(const uint8_t *head, uint8_t opcode, unsigned int *ratio);

/* Of a store that extent_evex() knows, which reaches `bytes` bytes. */
int masked_evex(const uint8_t *head, uint8_t opcode, unsigned int bytes, const ucontext_t *context,
		uint64_t *kept);

/*
 * The mask, a bit for each element; all bits without a mask. Only after masked_evex() returned 0.
 */
uint64_t masked_bits(const uint8_t *head, const ucontext_t *context);

/*
 * How many bytes one sign bit selects, in a store of VEX.66.0F38: vmaskmovps, vpmaskmovd and the
 * like. 0: another instruction.
 */
unsigned int masked_vex_element(uint8_t opcode, int is_wide);

/* The sign bits of vector register `number` select: vmaskmovps, vpmaskmovd, maskmovdqu. */
int masked_by_signs(unsigned int number, unsigned int element, unsigned int bytes,
		    const ucontext_t *context, uint64_t *kept);

#endif
