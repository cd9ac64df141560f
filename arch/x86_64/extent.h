/* SPDX-License-Identifier: MIT */
/*
 * How far those instructions reach in memory whose values are read there: x87's, and stores of
 * EVEX. SDM, volume 2, appendix A, and 2.7.
 */
#ifndef ARCH_X86_64_EXTENT_H
#define ARCH_X86_64_EXTENT_H

#include "arch/written.h"

#include <stdint.h>

/*
 * Opcodes d8 to df with an operand in memory, by the middle bits of ModRM: fills in `bytes` and
 * `way`. `is_narrow`: with an operand size prefix.
 */
void extent_x87(struct written *written, uint8_t opcode, unsigned int which, int is_narrow);

/*
 * How many bytes the store with an EVEX prefix at `head` can reach. It writes all of them unless a
 * mask excludes some (arch/x86_64/masked.h). 0: not a store, or unknown here.
 */
unsigned int extent_evex(const uint8_t *head, uint8_t opcode);

#endif
