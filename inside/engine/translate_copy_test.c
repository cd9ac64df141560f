/* SPDX-License-Identifier: MIT */
/*
 * Instructions that lead nowhere are copied, and what depends on the processor and on the place of
 * the map: as in translate_test.c.
 */
#include "inside/engine/map.h"
#include "inside/engine/testing/fixture_code.h"
#include "inside/engine/testing/listing.h"

#include <criterion/criterion.h>

/* ---- instructions that are copied ---- */

static const struct listing_case copies[] = {
	{ "nop", BYTES("\x90"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
	{ "mov %rbx, %rax; add $1, %eax", BYTES("\x48\x89\xd8\x83\xc0\x01"),
	  "0:3 mov %rbx, %rax\n"
	  "0:3 add $0x1, %eax\n"
	  "+ leave 0/1 to code+0x6\n"
	  "block code+0x0: 2 in 6 bytes, last at 3, fall\n" },
	{ "mov -0x10(%rip), %eax", BYTES("\x8b\x05\xf0\xff\xff\xff"),
	  "0:6 mov code-0xa, %eax\n"
	  "+ leave 0/1 to code+0x6\n"
	  "block code+0x0: 1 in 6 bytes, last at 0, fall\n" },
	{ "lea 0x100(%rip), %rsi", BYTES("\x48\x8d\x35\x00\x01\x00\x00"),
	  "0:7 lea code+0x107, %rsi\n"
	  "+ leave 0/1 to code+0x7\n"
	  "block code+0x0: 1 in 7 bytes, last at 0, fall\n" },
	{ "cmpb $1, 0x20(%rip)", BYTES("\x80\x3d\x20\x00\x00\x00\x01"),
	  "0:7 cmpb $0x1, code+0x27\n"
	  "+ leave 0/1 to code+0x7\n"
	  "block code+0x0: 1 in 7 bytes, last at 0, fall\n" },
	{ "mov %fs:0x28, %rax", BYTES("\x64\x48\x8b\x04\x25\x28\x00\x00\x00"),
	  "0:9 mov %fs:0x28, %rax\n"
	  "+ leave 0/1 to code+0x9\n"
	  "block code+0x0: 1 in 9 bytes, last at 0, fall\n" },
	{ "rep movsb", BYTES("\xf3\xa4"),
	  "0:2 rep movsb\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, fall\n" },
	{ "repne, rep, rep movsb", BYTES("\xf2\xf3\xf3\xa4"),
	  "0:4 rep movsb\n"
	  "+ leave 0/1 to code+0x4\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, fall\n" },
	{ "66, 66, 66, nop", BYTES("\x66\x66\x66\x90"),
	  "0:4 nop\n"
	  "+ leave 0/1 to code+0x4\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, fall\n" },
	{ "lock addl $1, (%rdi)", BYTES("\xf0\x83\x07\x01"),
	  "0:4 lock addl $0x1, (%rdi)\n"
	  "+ leave 0/1 to code+0x4\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, fall\n" },
	{ "REX.W, then REX.B: inc %r8d", BYTES("\x48\x41\xff\xc0"),
	  "0:4 inc %r8d\n"
	  "+ leave 0/1 to code+0x4\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, fall\n" },
	{ "movaps %xmm15, %xmm0", BYTES("\x41\x0f\x28\xc7"),
	  "+ save xmm15 pointer; load xmm15 vector15\n"
	  "0:4s movaps %xmm15, %xmm0\n"
	  "+s save xmm15 vector15; load xmm15 pointer\n"
	  "+ leave 0/1 to code+0x4\n"
	  "block code+0x0: 1 in 4 bytes, last at 0, fall\n" },
	{ "movaps %xmm15, %xmm0; nop; jmp", BYTES("\x41\x0f\x28\xc7\x90\xeb\x20"),
	  "+ save xmm15 pointer; load xmm15 vector15\n"
	  "0:4s movaps %xmm15, %xmm0\n"
	  "0:1s nop\n"
	  "+s save xmm15 vector15; load xmm15 pointer\n"
	  "0:2\n"
	  "+ leave 0/1 to code+0x27\n"
	  "block code+0x0: 3 in 7 bytes, last at 5, jump code+0x27\n" },
	{ "fxsave (%rax)", BYTES("\x0f\xae\x00"),
	  "+ save xmm15 pointer; load xmm15 vector15\n"
	  "0:3s fxsave (%rax)\n"
	  "+s save xmm15 vector15; load xmm15 pointer\n"
	  "+ leave 0/1 to code+0x3\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, fall\n" },
	{ "vzeroupper", BYTES("\xc5\xf8\x77"),
	  "0:3 vzeroupper\n"
	  "+ leave 0/1 to code+0x3\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, fall\n" },
	{ "cpuid", BYTES("\x0f\xa2"),
	  "0:2 cpuid\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, fall\n" },
	{ "pushf; popf", BYTES("\x9c\x9d"),
	  "0:1 pushfq\n"
	  "0:1 popfq\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 2 in 2 bytes, last at 1, fall\n" },
	{ "fnstenv (%rax)", BYTES("\xd9\x30"),
	  "0:2 fnstenv (%rax)\n"
	  "+ leave 0/1 to code+0x2\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, fall\n" },
	{ "nop; fnstenv (%rax)", BYTES("\x90\xd9\x30"),
	  "0:1 nop\n"
	  "+ leave 0/1 to code+0x1\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, fall\n" },
};

Test(translate_copy, other_instructions_are_copied)
{
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, copies);
}

/* ---- by the processor's vectors, and by the map's place ---- */

#define VECTOR15_TO_0_ZEROUPPER "\x41\x0f\x28\xc7\xc5\xf8\x77"

static const struct listing_case avx[] = {
	{ "vzeroupper", BYTES("\xc5\xf8\x77"),
	  "+ movq $0x0, %gs:vector15+16; "
	  "movq $0x0, %gs:vector15+24\n"
	  "0:3 vzeroupper\n"
	  "+ vleave 0/1 to code+0x3\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, fall\n" },
	{ "movaps %xmm15, %xmm0; vzeroupper", BYTES(VECTOR15_TO_0_ZEROUPPER),
	  "+ vsave xmm15 pointer; vload ymm15 vector15\n"
	  "0:4s movaps %xmm15, %xmm0\n"
	  "0:3s vzeroupper\n"
	  "+s vsave ymm15 vector15; vload xmm15 pointer\n"
	  "+ vleave 0/1 to code+0x7\n"
	  "block code+0x0: 2 in 7 bytes, last at 4, fall\n" },
	{ "ret", BYTES("\xc3"),
	  "+ save rcx\n"
	  "+k vput 0/1 by rcx\n"
	  "0:1kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; jmp map\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, return\n"
	  "exit 0/1: return, drops 0\n" },
};

static const struct listing_case avx512[] = {
	{ "vzeroupper", BYTES("\xc5\xf8\x77"),
	  "+ movq $0x0, %gs:vector15+16; "
	  "movq $0x0, %gs:vector15+24; "
	  "movq $0x0, %gs:vector15+32; "
	  "movq $0x0, %gs:vector15+40; "
	  "movq $0x0, %gs:vector15+48; "
	  "movq $0x0, %gs:vector15+56\n"
	  "0:3 vzeroupper\n"
	  "+ vleave 0/1 to code+0x3\n"
	  "block code+0x0: 1 in 3 bytes, last at 0, fall\n" },
	{ "vpaddd %zmm15, %zmm1, %zmm2", BYTES("\x62\xd1\x75\x48\xfe\xd7"),
	  "+ vsave xmm15 pointer; vmovdqu64z %gs:vector15, %zmm15\n"
	  "0:6s vpaddd %zmm15, %zmm1, %zmm2\n"
	  "+s vsave k0 vector15; vload xmm15 pointer\n"
	  "+ vleave 0/1 to code+0x6\n"
	  "block code+0x0: 1 in 6 bytes, last at 0, fall\n" },
};

Test(translate_copy, avx_keeps_upper_half_of_vector15)
{
	fixture_width = VECTOR_AVX;
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, avx);
}

Test(translate_copy, avx512_keeps_all_of_vector15)
{
	fixture_width = VECTOR_AVX512;
	fixture_open_near();
	LISTING_CHECK(FIXTURE_LOW, avx512);
}

static const struct listing_case far_map[] = {
	{ "ret", BYTES("\xc3"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:1kr mov (%rsp), %ecx\n"
	  "+k lea 0x8(%rsp), %rsp; save rax spill; mov $map, %rax; lea (%rax,%rcx,8), %rcx; "
	  "load rax spill; jmp (%rcx)\n"
	  "block code+0x0: 1 in 1 bytes, last at 0, return\n"
	  "exit 0/1: return, drops 0\n" },
	{ "jmp *%rbx", BYTES("\xff\xe3"),
	  "+ save rcx\n"
	  "+k put 0/1 by rcx\n"
	  "0:2kr mov %ebx, %ecx\n"
	  "+k save rax spill; mov $map, %rax; lea (%rax,%rcx,8), %rcx; load rax spill; jmp (%rcx)\n"
	  "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
	  "exit 0/1: to rbx\n" },
};

Test(translate_copy, far_map_needs_a_base)
{
	fixture_open_far();
	LISTING_CHECK(FIXTURE_LOW, far_map);
}

/* What code jumps by is what map_set() stores, and translate() sets it. */
static void check_map(void)
{
	uint64_t pc = fixture_put(FIXTURE_HIGH, 0, "\x90", 1);
	const struct trace *trace = fixture_translate(pc);
	const uint64_t *entries;

	entries = (const uint64_t *)listing_map();
	cr_assert_eq(entries[(uint32_t)pc], (uint64_t)trace->landing);
	map_set(pc, 0);
	cr_assert_neq(entries[(uint32_t)pc], (uint64_t)trace->landing);
}

Test(translate_copy, near_map_leads_to_the_landing)
{
	fixture_open_near();
	check_map();
}

Test(translate_copy, far_map_leads_to_the_landing)
{
	fixture_open_far();
	check_map();
}
