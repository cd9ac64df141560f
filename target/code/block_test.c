/* SPDX-License-Identifier: MIT */
#include "target/code/block.h"

#include "target/code/testing/block_read.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define AT 0x401000u

struct sample {
	const char *what;
	uint8_t code[12];
	uint8_t bytes, kind;
	uint64_t target;
};

/* Encodings of the Intel SDM, volume 2. */
static const struct sample samples[] = {
	{ "nop", { 0x90 }, 1, TRAIL_FALL, 0 },
	{ "je +2", { 0x74, 0x02 }, 2, TRAIL_BRANCH, AT + 4 },
	{ "jg -16", { 0x7f, 0xf0 }, 2, TRAIL_BRANCH, AT + 2 - 16 },
	{ "jne rel32", { 0x0f, 0x85, 0, 1, 0, 0 }, 6, TRAIL_BRANCH, AT + 6 + 256 },
	{ "bnd jne rel32", { 0xf2, 0x0f, 0x85, 0xff, 0xff, 0xff, 0xff }, 7, TRAIL_BRANCH, AT + 6 },
	{ "jne rel32, hinted", { 0x3e, 0x0f, 0x85, 0, 1, 0, 0 }, 7, TRAIL_BRANCH, AT + 7 + 256 },
	{ "loop", { 0xe2, 0xfe }, 2, TRAIL_BRANCH, AT },
	{ "loopne", { 0xe0, 0xfe }, 2, TRAIL_BRANCH, AT },
	{ "jrcxz", { 0xe3, 0x10 }, 2, TRAIL_BRANCH, AT + 0x12 },
	{ "jecxz", { 0x67, 0xe3, 0x10 }, 3, TRAIL_BRANCH, AT + 0x13 },
	{ "xbegin", { 0xc7, 0xf8, 4, 0, 0, 0 }, 6, TRAIL_BRANCH, AT + 10 },
	{ "movl $4,%eax by c7", { 0xc7, 0xc0, 4, 0, 0, 0 }, 6, TRAIL_FALL, 0 },
	{ "jmp rel8", { 0xeb, 0xfe }, 2, TRAIL_JUMP, AT },
	{ "jmp rel32", { 0xe9, 0, 0, 0, 0x80 }, 5, TRAIL_JUMP, AT + 5 - 0x80000000ull },
	{ "call rel32", { 0xe8, 0xfb, 0xff, 0xff, 0xff }, 5, TRAIL_CALL, AT },
	{ "jmp *%rax", { 0xff, 0xe0 }, 2, TRAIL_JUMP_INDIRECT, 0 },
	{ "notrack jmp *%rax", { 0x3e, 0xff, 0xe0 }, 3, TRAIL_JUMP_INDIRECT, 0 },
	{ "jmp *disp(%rip)", { 0xff, 0x25, 0, 0, 0, 0 }, 6, TRAIL_JUMP_INDIRECT, 0 },
	{ "call *(%rax)", { 0xff, 0x10 }, 2, TRAIL_CALL_INDIRECT, 0 },
	{ "call *%gs:(%rax)", { 0x65, 0xff, 0x10 }, 3, TRAIL_CALL_INDIRECT, 0 },
	{ "lcall *(%rax)", { 0xff, 0x18 }, 2, TRAIL_FAR, 0 },
	{ "ljmp *(%rax)", { 0xff, 0x28 }, 2, TRAIL_FAR, 0 },
	{ "incl (%rax)", { 0xff, 0x00 }, 2, TRAIL_FALL, 0 },
	{ "push (%rax)", { 0xff, 0x30 }, 2, TRAIL_FALL, 0 },
	{ "ret", { 0xc3 }, 1, TRAIL_RETURN, 0 },
	{ "repz ret", { 0xf3, 0xc3 }, 2, TRAIL_RETURN, 0 },
	{ "ret $8", { 0xc2, 8, 0 }, 3, TRAIL_RETURN, 0 },
	{ "lret", { 0xcb }, 1, TRAIL_FAR, 0 },
	{ "iretq", { 0x48, 0xcf }, 2, TRAIL_FAR, 0 },
	{ "syscall", { 0x0f, 0x05 }, 2, TRAIL_SYSCALL, 0 },
	{ "sysenter", { 0x0f, 0x34 }, 2, TRAIL_SYSCALL, 0 },
	{ "int $0x80", { 0xcd, 0x80 }, 2, TRAIL_SYSCALL, 0 },
	{ "int $3", { 0xcd, 0x03 }, 2, TRAIL_STOP, 0 },
	{ "int3", { 0xcc }, 1, TRAIL_STOP, 0 },
	{ "int1", { 0xf1 }, 1, TRAIL_STOP, 0 },
	{ "hlt", { 0xf4 }, 1, TRAIL_STOP, 0 },
	{ "ud2", { 0x0f, 0x0b }, 2, TRAIL_STOP, 0 },
	{ "ud1", { 0x0f, 0xb9, 0xc0 }, 3, TRAIL_STOP, 0 },
	{ "setne, 0f 95", { 0x0f, 0x95, 0xc0 }, 3, TRAIL_FALL, 0 },
	{ "vzeroupper, VEX 77", { 0xc5, 0xf8, 0x77 }, 3, TRAIL_FALL, 0 },
	{ "vpcmpeqb, VEX 74", { 0xc5, 0xf9, 0x74, 0xc0 }, 4, TRAIL_FALL, 0 },
	{ "pshufb, 0f 38 00", { 0x66, 0x0f, 0x38, 0x00, 0xc0 }, 5, TRAIL_FALL, 0 },
};

Test(block, tells_where_each_kind_of_instruction_leads)
{
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		const struct sample *sample = &samples[i];
		struct block_insn insn;

		cr_assert_eq(block_insn(&insn, AT, sample->code, sizeof(sample->code)), 0, "%s",
			     sample->what);
		cr_expect_eq(insn.bytes, sample->bytes, "%s: %u bytes", sample->what, insn.bytes);
		cr_expect_eq(insn.kind, sample->kind, "%s: kind %u", sample->what, insn.kind);
		cr_expect_eq(insn.target, sample->target, "%s: target %#lx", sample->what,
			     insn.target);
		cr_expect_eq(block_insn(&insn, AT, sample->code, sample->bytes - 1u), -EILSEQ,
			     "%s, cut", sample->what);
	}
}

/* AMD's manual, volume 3, 1.2.2 and the pages of each; seen on an EPYC. */
static const struct sample by_amd[] = {
	{ "jne rel16", { 0x66, 0x0f, 0x85, 0xf0, 0xff }, 5, TRAIL_BRANCH, (AT + 5 - 16) & 0xffff },
	{ "jmp rel16", { 0x66, 0xe9, 2, 0 }, 4, TRAIL_JUMP, (AT + 6) & 0xffff },
	{ "call rel16", { 0x66, 0xe8, 2, 0 }, 4, TRAIL_CALL, (AT + 6) & 0xffff },
	{ "jmp rel8", { 0x66, 0xeb, 2 }, 3, TRAIL_JUMP, (AT + 5) & 0xffff },
	{ "je rel8", { 0x66, 0x74, 2 }, 3, TRAIL_BRANCH, (AT + 5) & 0xffff },
	{ "loop", { 0x66, 0xe2, 2 }, 3, TRAIL_BRANCH, (AT + 5) & 0xffff },
	{ "call, REX.W", { 0x66, 0x66, 0x48, 0xe8, 0, 1, 0, 0 }, 8, TRAIL_CALL, AT + 8 + 256 },
	{ "jmp", { 0xe9, 0, 1, 0, 0 }, 5, TRAIL_JUMP, AT + 5 + 256 },
	{ "nopw", { 0x66, 0x0f, 0x1f, 0x44, 0, 0 }, 6, TRAIL_FALL, 0 },
};

Test(block, tells_where_amds_branches_lead_whose_operands_are_short)
{
	for (size_t i = 0; i < sizeof(by_amd) / sizeof(by_amd[0]); i++) {
		const struct sample *sample = &by_amd[i];
		struct block_insn insn;

		cr_assert_eq(block_insn_of(&insn, BLOCK_AMD, AT, sample->code,
					   sizeof(sample->code)),
			     0, "%s", sample->what);
		cr_expect_eq(insn.bytes, sample->bytes, "%s: %u bytes", sample->what, insn.bytes);
		cr_expect_eq(insn.kind, sample->kind, "%s: kind %u", sample->what, insn.kind);
		cr_expect_eq(insn.target, sample->target, "%s: target %#lx", sample->what,
			     insn.target);
	}
}

Test(block, knows_what_who_steps_has_to_know)
{
	static const struct {
		const char *what;
		uint8_t code[4], traits;
	} all[] = {
		{ "pushf", { 0x9c }, INSN_PUSHES_FLAGS },
		{ "pushfw", { 0x66, 0x9c }, INSN_PUSHES_FLAGS },
		{ "pushf, prefixes", { 0x2e, 0xf2, 0x9c }, INSN_PUSHES_FLAGS },
		{ "popf", { 0x9d }, INSN_POPS_FLAGS },
		{ "popfw", { 0x66, 0x9d }, INSN_POPS_FLAGS },
		{ "iretq", { 0x48, 0xcf }, INSN_POPS_FLAGS },
		{ "iret", { 0xcf }, INSN_POPS_FLAGS },
		{ "int1", { 0xf1 }, INSN_TRAPS },
		{ "int3", { 0xcc }, 0 },
		{ "mov %ebx,%ss", { 0x8e, 0xd3 }, INSN_SHADOWS },
		{ "mov (%rbx),%ss", { 0x8e, 0x13 }, INSN_SHADOWS },
		{ "mov %ebx,%ds", { 0x8e, 0xdb }, 0 },
		{ "mov %ss,%ebx", { 0x8c, 0xd3 }, 0 },
		{ "mov %edx,%edx", { 0x89, 0xd2 }, 0 },
		{ "cpuid", { 0x0f, 0xa2 }, INSN_EMULATED },
		{ "cpuid, prefixes", { 0x66, 0x48, 0x0f, 0xa2 }, INSN_EMULATED },
		{ "in $0x10,%al", { 0xe4, 0x10 }, INSN_EMULATED },
		{ "in %dx,%eax", { 0xed }, INSN_EMULATED },
		{ "rep insb", { 0xf3, 0x6c }, 0 },
		{ "out %al,$0x10", { 0xe6, 0x10 }, INSN_EMULATED },
		{ "out %eax,%dx", { 0xef }, INSN_EMULATED },
		{ "rep outsb", { 0xf3, 0x6e }, 0 },
		{ "pause", { 0xf3, 0x90 }, INSN_EMULATED },
		{ "nop", { 0x90 }, 0 },
		{ "rdpmc", { 0x0f, 0x33 }, INSN_EMULATED },
		{ "rdpru", { 0x0f, 0x01, 0xfd }, INSN_EMULATED },
		{ "rdrand %eax", { 0x0f, 0xc7, 0xf0 }, INSN_EMULATED },
		{ "rdseed %eax", { 0x0f, 0xc7, 0xf8 }, INSN_EMULATED },
		{ "cmpxchg8b (%rax)", { 0x0f, 0xc7, 0x08 }, 0 },
		{ "rdtsc", { 0x0f, 0x31 }, INSN_EMULATED },
		{ "rdtscp", { 0x0f, 0x01, 0xf9 }, INSN_EMULATED },
		{ "swapgs", { 0x0f, 0x01, 0xf8 }, 0 },
		{ "sgdt (%rax)", { 0x0f, 0x01, 0x00 }, INSN_EMULATED },
		{ "sidt (%rax)", { 0x0f, 0x01, 0x08 }, INSN_EMULATED },
		{ "smsw %eax", { 0x0f, 0x01, 0xe0 }, INSN_EMULATED },
		{ "lgdt (%rax)", { 0x0f, 0x01, 0x10 }, 0 },
		{ "sldt %eax", { 0x0f, 0x00, 0xc0 }, INSN_EMULATED },
		{ "str %eax", { 0x0f, 0x00, 0xc8 }, INSN_EMULATED },
		{ "tpause %eax", { 0x66, 0x0f, 0xae, 0xf0 }, INSN_EMULATED },
		{ "umwait %eax", { 0xf2, 0x0f, 0xae, 0xf0 }, INSN_EMULATED },
		{ "mfence", { 0x0f, 0xae, 0xf0 }, 0 },
		{ "vmcall", { 0x0f, 0x01, 0xc1 }, INSN_EMULATED },
		{ "vmmcall", { 0x0f, 0x01, 0xd9 }, INSN_EMULATED },
		{ "xgetbv", { 0x0f, 0x01, 0xd0 }, 0 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct block_insn insn;

		cr_assert_eq(block_insn(&insn, AT, all[i].code, sizeof(all[i].code)), 0, "%s",
			     all[i].what);
		cr_expect_eq(insn.traits, all[i].traits, "%s: traits %#x", all[i].what,
			     insn.traits);
	}
}

Test(block, knows_string_instructions_that_repeat)
{
	static const uint8_t repeated[] = { 0xf3, 0xa4 }, once[] = { 0xa4 };
	static const uint8_t until[] = { 0xf2, 0xae }, returns[] = { 0xf3, 0xc3 };
	struct block_insn insn;

	block_insn(&insn, AT, repeated, sizeof(repeated));
	cr_expect(insn.repeats, "rep movsb");
	block_insn(&insn, AT, until, sizeof(until));
	cr_expect(insn.repeats, "repne scasb");
	block_insn(&insn, AT, once, sizeof(once));
	cr_expect_not(insn.repeats, "movsb");
	block_insn(&insn, AT, returns, sizeof(returns));
	cr_expect_not(insn.repeats, "repz ret");
}

Test(block, ends_with_the_first_instruction_that_leads_elsewhere)
{
	static const uint8_t code[] = { 0x90, 0x48, 0x89, 0xc8, 0x74, 0x05, 0x90 };
	struct trail_entry entry;

	cr_assert_eq(block_read(&entry, AT, code, sizeof(code), 64), 0);
	cr_expect_eq(entry.start, AT);
	cr_expect_eq(entry.bytes, 6);
	cr_expect_eq(entry.last, 4);
	cr_expect_eq(entry.instructions, 3);
	cr_expect_eq(entry.kind, TRAIL_BRANCH);
	cr_expect_eq(entry.target, AT + 11);
}

Test(block, is_cut_at_its_most_and_before_what_is_no_instruction)
{
	uint8_t nops[200];
	static const uint8_t junk[] = { 0x90, 0x90, 0x06, 0x90 }; /* push %es: invalid in 64 bits */
	struct trail_entry entry;

	memset(nops, 0x90, sizeof(nops));
	cr_assert_eq(block_read(&entry, AT, nops, sizeof(nops), 1000), 0);
	cr_expect_eq(entry.instructions, TRAIL_BLOCK_INSTRUCTIONS_MAX);
	cr_expect_eq(entry.bytes, 64);
	cr_expect_eq(entry.last, 63);
	cr_expect_eq(entry.kind, TRAIL_FALL);
	cr_assert_eq(block_read(&entry, AT, nops, sizeof(nops), 3), 0);
	cr_expect_eq(entry.bytes, 3);
	cr_assert_eq(block_read(&entry, AT, junk, sizeof(junk), 64), 0);
	cr_expect_eq(entry.bytes, 2);
	cr_expect_eq(entry.last, 1);
	cr_expect_eq(entry.kind, TRAIL_FALL);
	cr_expect_eq(block_read(&entry, AT, junk + 2, 2, 64), -EILSEQ);
	cr_expect_eq(block_read(&entry, AT, junk, 0, 64), -EILSEQ);
}
