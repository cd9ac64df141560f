/* SPDX-License-Identifier: MIT */
/* Each kind's opcodes; arch/x86_64/insn_test.c holds all of them against libzydis. */
#include "base/opcode.h"

#include "abi/trail.h"

#include <criterion/criterion.h>

Test(opcode, ends_a_block_as_its_kind_says)
{
	unsigned int counts[TRAIL_KINDS] = { 0 };

	for (unsigned int opcode = 0; opcode < 256; opcode++)
		counts[opcode_kind((uint8_t)opcode, 0)]++;
	cr_expect_eq(counts[TRAIL_BRANCH], 16 + 4, "jcc; loop, jrcxz");
	cr_expect_eq(counts[TRAIL_JUMP], 2);
	cr_expect_eq(counts[TRAIL_CALL], 1);
	cr_expect_eq(counts[TRAIL_RETURN], 2);
	cr_expect_eq(counts[TRAIL_FAR], 3, "far returns, iret");
	cr_expect_eq(counts[TRAIL_STOP], 4, "int3, int, int1, hlt");
	cr_expect_eq(counts[TRAIL_SYSCALL] + counts[TRAIL_CALL_INDIRECT] +
			     counts[TRAIL_JUMP_INDIRECT],
		     0);
}

Test(opcode, ff_goes_by_its_field)
{
	static const uint8_t wanted[8] = {
		[2] = TRAIL_CALL_INDIRECT,
		[3] = TRAIL_FAR,
		[4] = TRAIL_JUMP_INDIRECT,
		[5] = TRAIL_FAR,
	};

	for (uint8_t reg = 0; reg < 8; reg++)
		cr_expect_eq(opcode_kind(0xff, reg), wanted[reg] ? wanted[reg] : TRAIL_FALL);
}

Test(opcode, behind_0f_ends_a_block_as_well)
{
	unsigned int counts[TRAIL_KINDS] = { 0 };

	for (unsigned int opcode = 0; opcode < 256; opcode++)
		counts[opcode_kind_0f((uint8_t)opcode)]++;
	cr_expect_eq(counts[TRAIL_BRANCH], 16);
	cr_expect_eq(counts[TRAIL_SYSCALL], 2, "syscall, sysenter");
	cr_expect_eq(counts[TRAIL_FAR], 2, "sysret, sysexit");
	cr_expect_eq(counts[TRAIL_STOP], 3, "ud0, ud1, ud2");
	cr_expect_eq(counts[TRAIL_FALL], 256 - 16 - 2 - 2 - 3);
}
