/* SPDX-License-Identifier: MIT */
/*
 * One instruction in, its translation out: each case has the bytes, and the listing that
 * testing/listing.h makes of what is in the cache then. The code is the end of a page with nothing
 * behind it, so a case without an end of its own leaves there.
 */
#include "inside/engine/gate.h"
#include "inside/engine/testing/fixture_code.h"
#include "inside/engine/testing/listing.h"
#include "inside/engine/translate.h"

#include <criterion/criterion.h>
#include <errno.h>

/* ---- direct jumps and calls ---- */

static const struct listing_case direct[] = {
	{ "jmp rel32", BYTES("\xe9\x0b\x00\x00\x00"),
	  "0:5\n"
	  "+ leave 0/1 to code+0x10\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, jump code+0x10\n" },
	{ "jmp rel8", BYTES("\xeb\x20"),
	  "0:2\n"
	  "+ leave 0/1 to code+0x22\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump code+0x22\n" },
	{ "jmp rel8, to itself", BYTES("\xeb\xfe"),
	  "0:2\n"
	  "+ leave 0/1 to code+0x0, linked\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump code+0x0\n" },
	{ "jmp rel8, inside", BYTES("\xeb\x01\x06\x50"),
	  "0:2\n"
	  "1:1 push %rax\n"
	  "+ leave 0/2 to code+0x4\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump code+0x3\n"
	  "block code+0x3: 1 in 1 bytes, last at 0, fall\n" },
	{ "call rel32", BYTES("\xe8\x0b\x00\x00\x00"),
	  "0:5 push code+0x5\n"
	  "+ leave 0/1 to code+0x10\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, call code+0x10\n" },
	{ "call rel32, inside; ret", BYTES("\xe8\x01\x00\x00\x00\x50\xc3"),
	  "0:5 push code+0x5\n"
	  "+ save rcx\n"
	  "1:1k mov (%rsp), %ecx\n"
	  "+k lea -code+0x5(%rcx), %ecx; jrcxz over 14; load rcx; jmp cold0; load rcx\n"
	  "+ lea 0x8(%rsp), %rsp\n"
	  "2:1 push %rax\n"
	  "+ save rcx\n"
	  "+k put 1/3 by rcx\n"
	  "2:1kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; jmp map\n"
	  "cold0: save rcx; put 0/2 by rcx; mov (%rsp), %ecx; lea 0x8(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, call code+0x6\n"
	  "block code+0x6: 1 in 1 bytes, last at 0, return\n"
	  "block code+0x5: 2 in 2 bytes, last at 1, return\n"
	  "exit 0/2: return, drops 0\n"
	  "exit 1/3: return, drops 0\n" },
};

Test(translate, direct_jumps_and_calls_continue_at_their_target)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, direct);
}

static const struct listing_case high_calls[] = {
	{ "call rel32", BYTES("\xe8\x0b\x00\x00\x00"),
	  "0:5 push code+0x5 from cold\n"
	  "+ leave 0/1 to code+0x10\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, call code+0x10\n" },
	{ "call rel32, inside; ret", BYTES("\xe8\x01\x00\x00\x00\x50\xc3"),
	  "0:5 push code+0x5 from cold\n"
	  "+ save rcx\n"
	  "1:1k mov (%rsp), %ecx\n"
	  "+k lea -half code+0x5(%rcx), %ecx; jrcxz over 14; load rcx; jmp cold0; load rcx\n"
	  "+ lea 0x8(%rsp), %rsp\n"
	  "2:1 push %rax\n"
	  "+ save rcx\n"
	  "+k put 1/3 by rcx\n"
	  "2:1kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; jmp map\n"
	  "cold0: save rcx; put 0/2 by rcx; mov (%rsp), %ecx; lea 0x8(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, call code+0x6\n"
	  "block code+0x6: 1 in 1 bytes, last at 0, return\n"
	  "block code+0x5: 2 in 2 bytes, last at 1, return\n"
	  "exit 0/2: return, drops 0\n"
	  "exit 1/3: return, drops 0\n" },
	{ "call *%rdx", BYTES("\xff\xd2"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %edx, %ecx; push code+0x2 from cold\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, call indirect\n"
	  "exit 0/1: to rdx\n" },
};

Test(translate, high_call_pushes_constant_from_cold)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_HIGH, high_calls);
}

/* ---- returns ---- */

static const struct listing_case returns[] = {
	{ "ret", BYTES("\xc3"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:1kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, return\n"
	  "exit 0/1: return, drops 0\n" },
	{ "ret $0x10", BYTES("\xc2\x10\x00"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:3kr mov (%rsp), %ecx\n"
	  "+k lea 0x18(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, return\n"
	  "exit 0/1: return, drops 16\n" },
	{ "repz ret", BYTES("\xf3\xc3"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, return\n"
	  "exit 0/1: return, drops 0\n" },
};

Test(translate, returns_go_by_the_map)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, returns);
}

/* ---- conditional jumps ---- */

static const struct listing_case branches[] = {
	{ "je rel8, forward", BYTES("\x74\x20"),
	  "0:2 jz cold0\n"
	  "+ leave 1/1 to code+0x2\n"
	  "cold0: leave 0/1 to code+0x22\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x22\n" },
	{ "jne rel32, forward", BYTES("\x0f\x85\x20\x00\x00\x00"),
	  "0:6 jnz cold0\n"
	  "+ leave 1/1 to code+0x6\n"
	  "cold0: leave 0/1 to code+0x26\n"
	  "block code+0x0: 1 in 6 bytes, last at 0, branch code+0x26\n" },
	{ "jg rel8, backward", BYTES("\x7f\xf0"),
	  "0:2 jle cold0\n"
	  "+ leave 1/1 to code-0xe\n"
	  "cold0: leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code-0xe\n" },
	{ "jle rel8, to itself", BYTES("\x7e\xfe"),
	  "0:2 jnle cold0\n"
	  "+ leave 1/1 to code+0x0, linked\n"
	  "cold0: leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x0\n" },
	{ "jrcxz, forward", BYTES("\xe3\x20"),
	  "0:2 jrcxz over 2; jmp over 5; jmp cold0\n"
	  "+ leave 1/1 to code+0x2\n"
	  "cold0: leave 0/1 to code+0x22\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x22\n" },
	{ "jecxz, forward", BYTES("\x67\xe3\x20"),
	  "0:3 jecxz over 2; jmp over 5; jmp cold0\n"
	  "+ leave 1/1 to code+0x3\n"
	  "cold0: leave 0/1 to code+0x23\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, branch code+0x23\n" },
	{ "jrcxz, backward", BYTES("\xe3\xf0"),
	  "0:2 jrcxz over 5; jmp cold0\n"
	  "+ leave 1/1 to code-0xe\n"
	  "cold0: leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code-0xe\n" },
	{ "loop, backward", BYTES("\xe2\xf0"),
	  "0:2 loop over 5; jmp cold0\n"
	  "+ leave 1/1 to code-0xe\n"
	  "cold0: leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code-0xe\n" },
	{ "loope, forward", BYTES("\xe1\x10"),
	  "0:2 loope over 2; jmp over 5; jmp cold0\n"
	  "+ leave 1/1 to code+0x2\n"
	  "cold0: leave 0/1 to code+0x12\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x12\n" },
	{ "loopne, backward, of ecx", BYTES("\x67\xe0\xf0"),
	  "0:3 loopne over 5; jmp cold0\n"
	  "+ leave 1/1 to code-0xd\n"
	  "cold0: leave 0/1 to code+0x3\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, branch code-0xd\n" },
};

Test(translate, conditional_jumps_leave_by_a_cold_exit)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, branches);
}

/* ---- indirect jumps and calls ---- */

static const struct listing_case indirect[] = {
	{ "jmp *%rax", BYTES("\xff\xe0"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %eax, %ecx\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to rax\n" },
	{ "jmp *%rcx", BYTES("\xff\xe1"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "+kr load rcx\n"
	  "0:2kr mov %ecx, %ecx\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to rcx\n" },
	{ "jmp *%r9", BYTES("\x41\xff\xe1"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:3kr mov %r9d, %ecx\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to r9\n" },
	{ "jmp *%rsp", BYTES("\xff\xe4"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %rsp, %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "jmp *(%rax)", BYTES("\xff\x20"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov (%rax), %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "jmp *8(%rcx,%rdx,4)", BYTES("\xff\x64\x91\x08"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "+kr load rcx\n"
	  "0:4kr mov 0x8(%rcx,%rdx,4), %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "jmp *-8(%rip)", BYTES("\xff\x25\xf8\xff\xff\xff"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:6kr mov code-0x2, %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 6 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "jmp *%fs:(%r12)", BYTES("\x64\x41\xff\x24\x24"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:5kr mov %fs:(%r12), %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 5 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "jmp *(%edi)", BYTES("\x67\xff\x27"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:3kr mov (%edi), %rcx; save rcx target\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to memory\n" },
	{ "notrack jmp *%rdx", BYTES("\x3e\xff\xe2"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:3kr mov %edx, %ecx\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to rdx\n" },
	{ "call *%rdx", BYTES("\xff\xd2"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %edx, %ecx; push code+0x2\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, call indirect\n"
	  "exit 0/1: to rdx\n" },
	{ "call *%rsp", BYTES("\xff\xd4"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %rsp, %rcx; save rcx target; push code+0x2\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, call indirect\n"
	  "exit 0/1: to memory\n" },
	{ "call *0x10(%rsp)", BYTES("\xff\x54\x24\x10"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:4kr mov 0x10(%rsp), %rcx; save rcx target; push code+0x4\n"
	  "+k mov %ecx, %ecx; jmp map\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, call indirect\n"
	  "exit 0/1: to memory\n" },
	{ "call *%r12", BYTES("\x41\xff\xd4"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:3kr mov %r12d, %ecx; push code+0x3\n"
	  "+k jmp map\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, call indirect\n"
	  "exit 0/1: to r12\n" },
};

Test(translate, indirect_branches_go_by_the_map)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, indirect);
}

/* ---- system calls, traps ---- */

static const struct listing_case calls[] = {
	{ "syscall", BYTES("\x0f\x05"),
	  "+ put 0/1 by rcx; jmp gate_syscall\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, syscall\n"
	  "exit 0/1: syscall code+0x2\n" },
	{ "mov $39, %eax; syscall", BYTES("\xb8\x27\x00\x00\x00\x0f\x05"),
	  "0:5 mov $0x27, %eax\n"
	  "+ put 0/1 by rcx; jmp gate_syscall\n"
	  "block code+0x0: 2 in 7 bytes, last at 5, syscall\n"
	  "exit 0/1: syscall code+0x7\n" },
	{ "int3", BYTES("\xcc"),
	  "0:1 int3\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, stop\n" },
	{ "ud2", BYTES("\x0f\x0b"),
	  "0:2 ud2\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, stop\n" },
	{ "hlt", BYTES("\xf4"),
	  "0:1 hlt\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, stop\n" },
	{ "int $3", BYTES("\xcd\x03"),
	  "0:2 int $0x3\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, stop\n" },
};

Test(translate, system_calls_go_by_their_gate_and_traps_are_copied)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, calls);
}

/* ---- what is refused ---- */

static const struct listing_case refused[] = {
	{ "nop; int $0x80", BYTES("\x90\xcd\x80"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; ljmp *(%rax)", BYTES("\x90\xff\x28"),
	  "0:1 nop\n"
	  "+ save rax; put 0/1 by rax; load rax; jmp gate_refused\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n"
	  "exit 0/1: refused code+0x1\n" },
	{ "nop; lcall *(%rax)", BYTES("\x90\xff\x18"),
	  "0:1 nop\n"
	  "+ save rax; put 0/1 by rax; load rax; jmp gate_refused\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n"
	  "exit 0/1: refused code+0x1\n" },
	{ "nop; lret", BYTES("\x90\xcb"),
	  "0:1 nop\n"
	  "+ save rax; put 0/1 by rax; load rax; jmp gate_refused\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n"
	  "exit 0/1: refused code+0x1\n" },
	{ "nop; iretq", BYTES("\x90\x48\xcf"),
	  "0:1 nop\n"
	  "+ save rax; put 0/1 by rax; load rax; jmp gate_refused\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n"
	  "exit 0/1: refused code+0x1\n" },
	{ "nop; sysenter", BYTES("\x90\x0f\x34"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; rdgsbase %rax", BYTES("\x90\xf3\x48\x0f\xae\xc8"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; swapgs", BYTES("\x90\x0f\x01\xf8"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; mov %gs:0, %eax", BYTES("\x90\x65\x8b\x04\x25\x00\x00\x00\x00"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; mov %eax, %gs", BYTES("\x90\x8e\xe8"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; jmp *%gs:(%rax)", BYTES("\x90\x65\xff\x20"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; push %es", BYTES("\x90\x06"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; xbegin", BYTES("\x90\xc7\xf8\x10\x00\x00\x00"),
	  "0:1 nop\n"
	  "+ save rax; put 0/1 by rax; load rax; jmp gate_refused\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n"
	  "exit 0/1: refused code+0x1\n" },
	{ "nop; sixteen bytes",
	  BYTES("\x90\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; half a call", BYTES("\x90\xe8\x00\x00"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "nop; mov 0x10(%eip), %eax", BYTES("\x90\x67\x8b\x05\x10\x00\x00\x00"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
};

Test(translate, refused_instruction_ends_the_block_before_it)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, refused);
}

Test(translate, refused_instruction_alone_has_no_translation)
{
	fixture_open();
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		uint64_t pc = fixture_put(FIXTURE_LOW, 0, refused[i].bytes + 1,
					  refused[i].count - 1);
		int error = 0;

		cr_expect_null(translate(pc, gate_read, &error), "%s", refused[i].name);
		cr_expect_eq(error, -ENOEXEC, "%s: %d", refused[i].name, error);
	}
}

Test(translate, address_without_code_is_efault)
{
	uint64_t pc;
	int error = 0;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, "\x90", 1);
	cr_assert_null(translate(pc + 1, gate_read, &error));
	cr_assert_eq(error, -EFAULT);
}

/* AMD's processors take the 66 of a near branch for its displacement's size, Intel's ignore it. */
static const struct listing_case amd_branches[] = {
	{ "66 jmp, rel16", BYTES("\x66\xe9\x10\x00"),
	  "0:4\n"
	  "+ leave 0/1 to 0x1010\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, jump 0x1010\n" },
};

static const struct listing_case intel_branches[] = {
	{ "66 jmp, rel32", BYTES("\x66\xe9\x10\x00\x00\x00"),
	  "0:6\n"
	  "+ leave 0/1 to code+0x16\n"
	  "block code+0x0: 1 in 6 bytes, last at 0, jump code+0x16\n" },
};

Test(translate, amd_branch_with_66_has_16_bits)
{
	fixture_is_amd = 1;
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, amd_branches);
}

Test(translate, intel_branch_with_66_has_32_bits)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, intel_branches);
}
