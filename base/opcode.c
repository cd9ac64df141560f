/* SPDX-License-Identifier: MIT */
#include "base/opcode.h"

#include "abi/trail.h"

uint8_t opcode_kind(uint8_t opcode, uint8_t reg)
{
	if ((opcode >= 0x70 && opcode <= 0x7f) || (opcode >= 0xe0 && opcode <= 0xe3))
		return TRAIL_BRANCH;
	switch (opcode) {
	case 0xe8:
		return TRAIL_CALL;
	case 0xe9:
	case 0xeb:
		return TRAIL_JUMP;
	case 0xc2:
	case 0xc3:
		return TRAIL_RETURN;
	case 0xca:
	case 0xcb:
	case 0xcf:
		return TRAIL_FAR;
	case 0xcc:
	case 0xcd:
	case 0xf1:
	case 0xf4:
		return TRAIL_STOP;
	case 0xff:
		if (reg == 2)
			return TRAIL_CALL_INDIRECT;
		if (reg == 4)
			return TRAIL_JUMP_INDIRECT;
		return reg == 3 || reg == 5 ? TRAIL_FAR : TRAIL_FALL;
	default:
		return TRAIL_FALL;
	}
}

uint8_t opcode_kind_0f(uint8_t opcode)
{
	if (opcode >= 0x80 && opcode <= 0x8f)
		return TRAIL_BRANCH;
	switch (opcode) {
	case 0x05:
	case 0x34:
		return TRAIL_SYSCALL;
	case 0x07:
	case 0x35:
		return TRAIL_FAR;
	case 0x0b:
	case 0xb9:
	case 0xff:
		return TRAIL_STOP;
	default:
		return TRAIL_FALL;
	}
}
