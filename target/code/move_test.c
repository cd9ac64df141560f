/* SPDX-License-Identifier: MIT */
#include "target/code/move.h"

#include <criterion/criterion.h>
#include <string.h>

#define HERE 0x401000

static struct emit emit;
static struct move_insn insn;

static void given(const uint8_t *bytes, size_t count)
{
	static uint8_t copy[16];

	memset(&emit, 0, sizeof(emit));
	memcpy(copy, bytes, count);
	cr_assert(move_decode(&insn, HERE, copy, count));
	cr_assert_eq(insn.decoded.length, count);
}

#define BYTES(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

/* The instruction becomes these bytes, with the distances still 0. */
static void becomes(const uint8_t *bytes, size_t count)
{
	cr_assert_neq(move_judge(&insn), MOVE_CANT);
	move_emit(&emit, &insn);
	cr_assert_eq(emit.err, 0);
	cr_assert_eq(emit.bytes, count, "%u bytes", emit.bytes);
	cr_assert_arr_eq(emit.code, bytes, count);
}

static void leads_to(unsigned int which, unsigned int offset, unsigned int after, uint64_t target)
{
	cr_assert_lt(which, emit.fixup_count);
	cr_assert_eq(emit.fixups[which].kind, FIXUP_REL32);
	cr_assert_eq(emit.fixups[which].offset, offset);
	cr_assert_eq(emit.fixups[which].after, after);
	cr_assert_eq(emit.fixups[which].target, target, "%lx", emit.fixups[which].target);
}

Test(move, what_is_not_relative_stays_as_it_is)
{
	given(BYTES(0x48, 0x89, 0xe5)); /* mov %rsp, %rbp */
	becomes(BYTES(0x48, 0x89, 0xe5));
	given(BYTES(0x62, 0xf1, 0x7c, 0x48, 0x28, 0x44, 0x24, 0x01)); /* vmovaps 64(%rsp), %zmm0 */
	becomes(BYTES(0x62, 0xf1, 0x7c, 0x48, 0x28, 0x44, 0x24, 0x01));
	given(BYTES(0xc3));
	becomes(BYTES(0xc3));
	cr_assert_eq(move_judge(&insn), MOVE_LAST);
	cr_assert_eq(emit.fixup_count, 0);
}

Test(move, addresses_relative_to_the_next_instruction_keep_their_target)
{
	given(BYTES(0x48, 0x8d, 0x05, 0x10, 0, 0, 0)); /* lea 16(%rip), %rax */
	becomes(BYTES(0x48, 0x8d, 0x05, 0, 0, 0, 0));
	leads_to(0, 3, 0, HERE + 7 + 16);
	given(BYTES(0xc7, 0x05, 0xf0, 0xff, 0xff, 0xff, 1, 2, 3, 4)); /* movl $imm, -16(%rip) */
	becomes(BYTES(0xc7, 0x05, 0, 0, 0, 0, 1, 2, 3, 4));
	leads_to(0, 2, 4, HERE + 10 - 16);
	given(BYTES(0xc5, 0xfd, 0x6f, 0x05, 0x10, 0, 0, 0)); /* vmovdqa 16(%rip), %ymm0 */
	becomes(BYTES(0xc5, 0xfd, 0x6f, 0x05, 0, 0, 0, 0));
	leads_to(0, 4, 0, HERE + 8 + 16);
}

Test(move, branches_become_long)
{
	given(BYTES(0x74, 0x10)); /* je */
	becomes(BYTES(0x0f, 0x84, 0, 0, 0, 0));
	leads_to(0, 2, 0, HERE + 2 + 16);
	given(BYTES(0x0f, 0x8f, 0xf0, 0xff, 0xff, 0xff)); /* jg */
	becomes(BYTES(0x0f, 0x8f, 0, 0, 0, 0));
	leads_to(0, 2, 0, HERE + 6 - 16);
	given(BYTES(0xeb, 0xfe)); /* jmp to itself: through the detour again */
	becomes(BYTES(0xe9, 0, 0, 0, 0));
	leads_to(0, 1, 0, HERE);
	cr_assert_eq(move_judge(&insn), MOVE_LAST);
	given(BYTES(0x67, 0xe3, 0x08)); /* jecxz */
	becomes(BYTES(0x67, 0xe3, 2, 0xeb, 5, 0xe9, 0, 0, 0, 0));
	leads_to(0, 6, 0, HERE + 3 + 8);
}

Test(move, a_call_returns_to_where_it_stood)
{
	given(BYTES(0xe8, 0x10, 0, 0, 0));
	becomes(BYTES(0xff, 0x35, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0));
	leads_to(0, 7, 0, HERE + 5 + 16);
	cr_assert_eq(emit.slot_count, 1);
	cr_assert_eq(emit.slots[0].kind, FIXUP_ABS64);
	cr_assert_eq(emit.slots[0].target, HERE + 5);
	given(BYTES(0xff, 0x15, 0x10, 0, 0, 0)); /* call *16(%rip) */
	becomes(BYTES(0xff, 0x35, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0));
	leads_to(0, 8, 0, HERE + 6 + 16);
	given(BYTES(0x66, 0x48, 0xe8, 0x10, 0, 0, 0)); /* as for __tls_get_addr() */
	becomes(BYTES(0xff, 0x35, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0));
	leads_to(0, 7, 0, HERE + 7 + 16);
	given(BYTES(0x41, 0xff, 0xd2)); /* call *%r10 */
	becomes(BYTES(0xff, 0x35, 0, 0, 0, 0, 0x41, 0xff, 0xe2));
	cr_assert_eq(move_judge(&insn), MOVE_LAST);
}

Test(move, what_knows_where_it_stands_stays)
{
	static const uint8_t cases[][8] = {
		{ 2, 0x0f, 0x05 },	       /* syscall */
		{ 2, 0x0f, 0x34 },	       /* sysenter */
		{ 2, 0xcd, 0x80 },	       /* int $0x80 */
		{ 1, 0xcc },		       /* int3 */
		{ 2, 0x0f, 0x0b },	       /* ud2 */
		{ 1, 0xf4 },		       /* hlt */
		{ 6, 0xc7, 0xf8, 0, 0, 0, 0 }, /* xbegin */
		{ 3, 0xc6, 0xf8, 1 },	       /* xabort */
		{ 3, 0xff, 0x14, 0x24 },       /* call *(%rsp) */
		{ 2, 0xff, 0xd4 },	       /* call *%rsp */
		{ 4, 0xf3, 0x0f, 0x1e, 0xfa }, /* endbr64 */
		{ 2, 0xff, 0x18 },	       /* lcall *(%rax) */
		{ 2, 0xff, 0x28 },	       /* ljmp *(%rax) */
		{ 6, 0x66, 0xe8, 0, 0, 0, 0 }, /* callw, to some processors */
		{ 7, 0x66, 0x41, 0xe8, 0, 0, 0, 0 },
		{ 7, 0x67, 0x8b, 0x05, 0, 0, 0, 0 }, /* mov (%eip), %eax */
		{ 1, 0xcb },			     /* lret */
		{ 2, 0x48, 0xcf },		     /* iretq */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		given(cases[i] + 1, cases[i][0]);
		cr_assert_eq(move_judge(&insn), MOVE_CANT, "case %zu", i);
	}
}

Test(move, filler_leaves_nothing)
{
	given(BYTES(0x90));
	cr_assert(move_is_filler(&insn));
	becomes(emit.code, 0);
}
