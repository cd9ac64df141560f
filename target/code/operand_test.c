/* SPDX-License-Identifier: MIT */
#include "target/code/operand.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <waymark/error.h>
#include <waymark/marker.h>

static struct code_operand operand;
static uint8_t type;

static int find(void *data, const char *name, uint64_t *address)
{
	(void)data;
	*address = 0x4000;
	return strcmp(name, "counter") && strcmp(name, ".L4") ? -ENOENT : 0;
}

static const struct operand_symbols movable = { find, NULL, 0 }, fixed = { find, NULL, 1 };

static void reads(const char *text, unsigned int kind, unsigned int bytes, unsigned int reg,
		  unsigned int wm_type)
{
	cr_assert_eq(operand_parse(text, NULL, &operand, &type), 0, "%s", text);
	cr_assert_eq(operand.kind, kind, "%s", text);
	cr_assert_eq(operand.bytes, bytes, "%s", text);
	cr_assert_eq(operand.reg, reg, "%s", text);
	cr_assert_eq(type, wm_type, "%s", text);
}

Test(operand, registers_of_every_width)
{
	reads("8@%rax", OPERAND_REGISTER, 8, 0, WM_TYPE_U64);
	reads("-4@%edi", OPERAND_REGISTER, 4, 5, WM_TYPE_I32);
	reads("2@%bp", OPERAND_REGISTER, 2, 6, WM_TYPE_U16);
	reads("-1@%sil", OPERAND_REGISTER, 1, 4, WM_TYPE_I8);
	reads("1@%bh", OPERAND_HIGH, 1, 3, WM_TYPE_U8);
	reads("-8@%r8", OPERAND_REGISTER, 8, 8, WM_TYPE_I64);
	reads("4@%r15d", OPERAND_REGISTER, 4, 15, WM_TYPE_U32);
	reads("2@%r10w", OPERAND_REGISTER, 2, 10, WM_TYPE_U16);
	reads("1@%r9b", OPERAND_REGISTER, 1, 9, WM_TYPE_U8);
	reads("8@%rsp", OPERAND_REGISTER, 8, 7, WM_TYPE_U64);
}

Test(operand, the_size_that_is_said_counts_up_to_the_register_s_width)
{
	reads("4@%rax", OPERAND_REGISTER, 4, 0, WM_TYPE_U32);
	reads("-1@%eax", OPERAND_REGISTER, 1, 0, WM_TYPE_I8);
	reads("8@%eax", OPERAND_REGISTER, 4, 0, WM_TYPE_U32);
	reads("-4@%ah", OPERAND_HIGH, 1, 0, WM_TYPE_I8);
	reads("%eax", OPERAND_REGISTER, 4, 0, WM_TYPE_U32);
	reads("(%rax)", OPERAND_MEMORY, 8, 0, WM_TYPE_U64);
}

Test(operand, floats)
{
	reads("8f@%xmm0", OPERAND_VECTOR, 8, 0, WM_TYPE_F64);
	reads("4f@%xmm15", OPERAND_VECTOR, 4, 15, WM_TYPE_F32);
	reads("-8f@%xmm1", OPERAND_VECTOR, 8, 1, WM_TYPE_F64);
	reads("8f@-8(%rbp)", OPERAND_MEMORY, 8, 6, WM_TYPE_F64);
	reads("8@%xmm2", OPERAND_VECTOR, 8, 2, WM_TYPE_U64);
}

Test(operand, memory_in_all_its_forms)
{
	reads("-4@-20(%rbp)", OPERAND_MEMORY, 4, 6, WM_TYPE_I32);
	cr_assert_eq(operand.displacement, -20);
	cr_assert_eq(operand.index, OPERAND_NONE);
	reads("8@0x10(%rax,%r12,8)", OPERAND_MEMORY, 8, 0, WM_TYPE_U64);
	cr_assert_eq(operand.displacement, 16);
	cr_assert_eq(operand.index, 12);
	cr_assert_eq(operand.scale, 8);
	reads("1@(%rbx,%rcx)", OPERAND_MEMORY, 1, 3, WM_TYPE_U8);
	cr_assert_eq(operand.index, 2);
	cr_assert_eq(operand.scale, 1);
	reads("2@-6(,%rdx,2)", OPERAND_MEMORY, 2, OPERAND_NONE, WM_TYPE_U16);
	cr_assert_eq(operand.index, 1);
	reads("8@-20+8(%rsp)", OPERAND_MEMORY, 8, 7, WM_TYPE_U64);
	cr_assert_eq(operand.displacement, -12);
	reads("8@(%rsp,%riz,1)", OPERAND_MEMORY, 8, 7, WM_TYPE_U64);
	cr_assert_eq(operand.index, OPERAND_NONE);
}

Test(operand, constants)
{
	reads("-4@$-1", OPERAND_CONSTANT, 4, OPERAND_NONE, WM_TYPE_I32);
	cr_assert_eq(operand.displacement, -1);
	reads("8@$0xffffffffffffffff", OPERAND_CONSTANT, 8, OPERAND_NONE, WM_TYPE_U64);
	cr_assert_eq(operand.displacement, -1);
	reads("-8@$-9223372036854775808", OPERAND_CONSTANT, 8, OPERAND_NONE, WM_TYPE_I64);
	cr_assert_eq(operand.displacement, INT64_MIN);
}

Test(operand, symbols_where_they_have_an_address)
{
	cr_assert_eq(operand_parse("-4@counter+8(%rip)", &movable, &operand, &type), 0);
	cr_assert_eq(operand.kind, OPERAND_ADDRESS);
	cr_assert_eq(operand.displacement, 0x4008);
	cr_assert_eq(operand_parse("4@-8+.L4(%rip)", &movable, &operand, &type), 0);
	cr_assert_eq(operand.displacement, 0x3ff8);
	cr_assert_eq(operand_parse("8@counter", &movable, &operand, &type), 0);
	cr_assert_eq(operand.kind, OPERAND_ADDRESS);
	cr_assert_eq(operand_parse("8@$counter", &fixed, &operand, &type), 0);
	cr_assert_eq(operand.kind, OPERAND_CONSTANT);
	cr_assert_eq(operand_parse("8@counter(,%rax,8)", &fixed, &operand, &type), 0);
	cr_assert_eq(operand.displacement, 0x4000);
	cr_assert_eq(operand_parse("8@$counter", &movable, &operand, &type), -WM_E_OPERAND);
	cr_assert_eq(operand_parse("8@counter(,%rax,8)", &movable, &operand, &type), -WM_E_OPERAND);
	cr_assert_eq(operand_parse("8@unknown(%rip)", &movable, &operand, &type), -WM_E_OPERAND);
	cr_assert_eq(operand_parse("8@counter(%rip)", NULL, &operand, &type), -WM_E_OPERAND);
}

Test(operand, what_can_t_be_read_is_refused)
{
	static const char *const texts[] = {
		"",
		"8@",
		"@",
		"3@%rax",
		"16@%xmm0",
		"8@%",
		"8@%rip",
		"8@%xmm16",
		"8@%xmm01",
		"8@%ymm0",
		"8@%st",
		"8@%r7",
		"8@%r16",
		"8@%r8x",
		"8@%r08",
		"8@%rax%rbx",
		"8@$",
		"8@$1x",
		"8@$99999999999999999999",
		"8@(",
		"8@()",
		"8@(%rax",
		"8@(%eax)",
		"8@(%rax,)",
		"8@(%rax,%rbx,3)",
		"8@(%rax)x",
		"8@8(%rip)",
		"8@(%rax,%rsp)",
		"8@(%ah)",
		"8@4096",
		"8@%fs:0",
		"8@x@tpoff",
		"8@a+b(%rip)",
		"8@-a(%rip)",
		"8@0x100000000(%rax)",
		"2f@%xmm0",
		"8f@%eax",
		"8f@$1",
		"1@%xmm0",
		"8@1 2",
		"8@(%rax,%rbx,",
		"8@(,,)",
		"--8@%rax",
		"8@%rax ",
		"8@+",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_eq(operand_parse(texts[i], &movable, &operand, &type), -WM_E_OPERAND,
			     "%s", texts[i]);
}

Test(operand, a_list_is_taken_apart)
{
	const char *text = " -4@%edi  8@(%rax, %rbx, 8) x";
	char argument[32];

	cr_assert_eq(operand_next(&text, argument, sizeof(argument)), 1);
	cr_assert_str_eq(argument, "-4@%edi");
	cr_assert_eq(operand_next(&text, argument, sizeof(argument)), 1);
	cr_assert_str_eq(argument, "8@(%rax, %rbx, 8)");
	cr_assert_eq(operand_parse(argument, NULL, &operand, &type), 0);
	cr_assert_eq(operand.index, 3);
	cr_assert_eq(operand_next(&text, argument, 1), -WM_E_OPERAND);
	text = "x";
	cr_assert_eq(operand_next(&text, argument, sizeof(argument)), 1);
	cr_assert_eq(operand_next(&text, argument, sizeof(argument)), 0);
}
