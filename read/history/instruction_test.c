/* SPDX-License-Identifier: MIT */
/* The text of instructions, in both syntaxes, with and without names. */
#include "read/history/instruction.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct instruction_format *att, *intel;
static char text[INSTRUCTION_TEXT_BYTES];

static void begin(void)
{
	cr_assert_eq(instruction_format_open(&att, INSTRUCTION_ATT), 0);
	cr_assert_eq(instruction_format_open(&intel, INSTRUCTION_INTEL), 0);
}

static void end(void)
{
	instruction_format_close(att);
	instruction_format_close(intel);
}

TestSuite(instruction, .init = begin, .fini = end);

static void reads(const char *code, size_t bytes, const char *as_att, const char *as_intel)
{
	const uint8_t *at = (const uint8_t *)code;

	cr_expect_eq(instruction_text(att, NULL, 0x1000, at, bytes, text), (int)bytes);
	cr_expect_str_eq(text, as_att);
	cr_expect_eq(instruction_text(intel, NULL, 0x1000, at, bytes, text), (int)bytes);
	cr_expect_str_eq(text, as_intel);
}
#define READS(code, as_att, as_intel) reads(code, sizeof(code) - 1, as_att, as_intel)

Test(instruction, is_written_as_debuggers_write_it)
{
	READS("\x90", "nop", "nop");
	READS("\xc7\x00\x01\x00\x00\x00", "movl $0x1, (%rax)", "mov dword ptr [rax], 0x1");
	READS("\x74\xfe", "je 0x1000", "je 0x1000");
	READS("\xe8\x0b\x00\x00\x00", "call 0x1010", "call 0x1010");
	READS("\xff\xd0", "call *%rax", "call rax");
	READS("\x48\x8b\x05\xf9\x0f\x00\x00", "mov 0xff9(%rip), %rax  # 0x2000",
	      "mov rax, [rip+0xff9]  # 0x2000");
	READS("\x0f\x87\xfa\x0f\x00\x00", "ja 0x2000", "ja 0x2000");
	READS("\x0f\x94\xc0", "sete %al", "sete al");
	READS("\x48\x0f\x4d\xc1", "cmovge %rcx, %rax", "cmovge rax, rcx");
	READS("\xff\x25\xfa\x0f\x00\x00", "jmp *0xffa(%rip)  # 0x2000",
	      "jmp [rip+0xffa]  # 0x2000");
	READS("\xff\x24\xc5\x00\x20\x00\x00", "jmp *0x2000(,%rax,8)", "jmp [rax*8+0x2000]");
	READS("\x0f\xb6\x3b", "movzbl (%rbx), %edi", "movzx edi, byte ptr [rbx]");
	READS("\x48\x0f\xb7\xc0", "movzwq %ax, %rax", "movzx rax, ax");
	READS("\x0f\xbe\xc0", "movsbl %al, %eax", "movsx eax, al");
	READS("\x48\x63\xff", "movslq %edi, %rdi", "movsxd rdi, edi");
	READS("\xf3\x0f\x10\x00", "movss (%rax), %xmm0", "movss xmm0, dword ptr [rax]");
	READS("\x48\x98", "cltq", "cdqe");
	READS("\x48\x99", "cqto", "cqo");
	READS("\xe3\xfe", "jrcxz 0x1000", "jrcxz 0x1000");
	READS("\xc3", "ret", "ret");
}

Test(instruction, that_is_none_is_bad)
{
	cr_expect_eq(instruction_text(att, NULL, 0x1000, (const uint8_t *)"\x06", 1, text),
		     -EILSEQ);
	cr_expect_str_eq(text, "(bad)");
	cr_expect_eq(instruction_text(att, NULL, 0x1000, (const uint8_t *)"\xe8\x00", 2, text),
		     -EILSEQ);
	cr_expect_eq(instruction_text(att, NULL, 0x1000, NULL, 0, text), -EILSEQ);
}

Test(instruction, has_a_mnemonic_with_its_prefixes)
{
	strcpy(text, "jz 0x1000 <main+0x10>");
	cr_expect_str_eq(instruction_mnemonic(text), "jz");
	strcpy(text, "bnd jmp *%rax");
	cr_expect_str_eq(instruction_mnemonic(text), "bnd jmp");
	strcpy(text, "ret");
	cr_expect_str_eq(instruction_mnemonic(text), "ret");
}
