/* SPDX-License-Identifier: MIT */
/* Where control continues after an instruction, by its opcode: Intel SDM, volume 2, appendix A. */
#ifndef BASE_OPCODE_H
#define BASE_OPCODE_H

#include <stdint.h>

/*
 * The enum trail_kind (abi/trail.h) of one-byte opcodes (table A-2), with ModRM.reg, and of
 * two-byte ones behind 0f (table A-3). The caller handles what these do not show: int $0x80 is
 * TRAIL_SYSCALL, which comes out as TRAIL_STOP here, and xbegin is TRAIL_BRANCH, not TRAIL_FALL as
 * the mov with its opcode.
 */
uint8_t opcode_kind(uint8_t opcode, uint8_t reg);
uint8_t opcode_kind_0f(uint8_t opcode);

#endif
