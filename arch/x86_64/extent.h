/* SPDX-License-Identifier: MIT */
/*
 * How far those instructions reach in memory whose values are read there: x87's, and stores of EVEX. SDM, volume 2, appendix A, and 2.7.
 */
#ifndef ARCH_X86_64_EXTENT_H
#define ARCH_X86_64_EXTENT_H

#include "arch/written.h"

#include <stdint.h>

/* Opcodes d8 to df with an operand in memory, by their ModRM's middle bits: fills in `bytes` and `way`. */
void extent_x87(struct written *written, uint8_t opcode, unsigned int which);

/*
 * A store with an EVEX prefix, which begins at `head`: how many bytes, all of which it writes; a displacement of one byte counts
 * in so many, too. 0: it is none, or a mask says which it writes.
 */
unsigned int extent_evex(const uint8_t *head, uint8_t opcode);

#endif
