/* SPDX-License-Identifier: MIT */
/*
 * Vector and mask registers, as a signal's frame holds them. The kernel writes the frame in XSAVE's
 * standard format (asm/sigcontext.h; SDM volume 1, 13.4). Hit path.
 */
#ifndef ARCH_X86_64_FRAME_STATE_H
#define ARCH_X86_64_FRAME_STATE_H

#include <stdint.h>
#include <ucontext.h>

/*
 * Where the frame has k0 to k7, the high halves of zmm0 to zmm15, and zmm16 to zmm31 (cpuid leaf
 * 0xd, subleaves 5 to 7); 0: nowhere. vectors_init() sets them.
 */
extern uint32_t frame_masks_at, frame_zmm_high_at, frame_more_at;

/*
 * Copy `bytes` bytes of vector register `number` (0 to 31) from byte `from` on, of 64. 0; -1: the
 * frame does not have them.
 */
int frame_vector(const ucontext_t *context, unsigned int number, unsigned int from,
		 unsigned int bytes, uint8_t *to);

/* Read mask register `number`. 0; -1: the frame does not have it. */
int frame_mask(const ucontext_t *context, unsigned int number, uint64_t *mask);

#endif
