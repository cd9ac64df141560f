/* SPDX-License-Identifier: MIT */
#include "base/pun.h"

#include <criterion/criterion.h>
#include <string.h>

#define ADDRESS UINT64_C(0x500000001000)

/* An instruction of so many bytes, and those that follow. */
static struct control_detour record_of(unsigned int insn_bytes, uint8_t starts, const char *bytes,
				       size_t count)
{
	struct control_detour record = {
		.address = ADDRESS,
		.insn_bytes = (uint8_t)insn_bytes,
		.kept_bytes = (uint8_t)(count - insn_bytes),
		.starts = starts,
	};

	memcpy(record.original, bytes, count);
	return record;
}

#define RECORD(insn_bytes, starts, bytes) record_of(insn_bytes, starts, bytes, sizeof(bytes) - 1)

/* How many ways there are; the last one. */
static unsigned int ways(const struct control_detour *record, enum detour_form form,
			 struct pun_window *window)
{
	unsigned int number = 0, count = 0;
	struct pun_window next;

	for (; pun_next(record, form, &number, &next); count++)
		*window = next;
	return count;
}

/* The only way. */
static struct pun_window way(const struct control_detour *record, enum detour_form form)
{
	struct pun_window window = { 0 };

	cr_assert_eq(ways(record, form, &window), 1);
	cr_assert_eq(window.form, form);
	return window;
}

static unsigned int count_ways(const struct control_detour *record, enum detour_form form)
{
	struct pun_window unused;

	return ways(record, form, &unused);
}

/* ---- the form "byte" ---- */

Test(pun, byte_form_takes_the_distance_as_it_is)
{
	/* push %rbp; mov %rsp, %rbp */
	struct control_detour record = RECORD(1, 0, "\x55\x48\x89\xe5\x40");
	struct pun_window window = way(&record, FORM_BYTE);

	cr_assert_eq(window.opcode_at, 0);
	cr_assert_eq(window.free_bytes, 0);
	cr_assert_eq(window.low, (int64_t)ADDRESS + 5 + 0x40e58948);
	cr_assert_eq(window.count, 1);
	cr_assert_eq(window.deltas[0], 0);
	/* mov $0x80000001, %eax: the distance is in the instruction itself */
	record = RECORD(5, 0, "\xb8\x01\x00\x00\x80");
	window = way(&record, FORM_BYTE);
	cr_assert_eq(window.low, (int64_t)ADDRESS + 5 - 0x7fffffff);
}

Test(pun, byte_form_may_follow_prefixes_that_mean_nothing_to_a_jump)
{
	static const struct {
		const char *bytes;
		unsigned int insn_bytes, ways;
	} insns[] = {
		{ "\x48\x89\xf8\x11\x22\x33\x44", 3, 2 },     /* mov %rdi, %rax */
		{ "\x64\x48\x8b\x07\x11\x22\x33\x44", 4, 3 }, /* mov %fs:(%rdi), %rax */
		{ "\x48\x65\x8b\x07\x11\x22\x33\x44", 4,
		  2 },					  /* REX is not right before the opcode */
		{ "\x66\x89\xf8\x11\x22\x33\x44", 3, 1 }, /* mov %di, %ax */
		{ "\x67\x89\x07\x11\x22\x33\x44", 3, 1 }, /* mov %eax, (%edi) */
		{ "\xf0\xff\x07\x11\x22\x33\x44", 3, 1 }, /* lock incl (%rdi) */
		{ "\xf2\xae\x11\x22\x33\x44\x55", 2, 1 }, /* repne scas */
		{ "\xf3\xa4\x11\x22\x33\x44\x55", 2, 1 }, /* rep movsb */
		{ "\x66\x48\x98\x11\x22\x33\x44", 3, 1 }, /* cltq, with a prefix */
	};

	for (size_t i = 0; i < sizeof insns / sizeof insns[0]; i++) {
		struct control_detour record = record_of(insns[i].insn_bytes, 0, insns[i].bytes,
							 insns[i].insn_bytes + 4);

		cr_assert_eq(count_ways(&record, FORM_BYTE), insns[i].ways, "%zu", i);
	}
}

Test(pun, byte_form_behind_rex_has_the_distance_one_further)
{
	struct control_detour record = RECORD(3, 0, "\x48\x89\xf8\x11\x22\x33");
	struct pun_window window;

	cr_assert_eq(ways(&record, FORM_BYTE, &window), 2);
	cr_assert_eq(window.opcode_at, 1);
	cr_assert_eq(window.low, (int64_t)ADDRESS + 6 + 0x332211f8);
}

Test(pun, a_jump_itself_has_no_byte_form)
{
	struct control_detour record = RECORD(5, 0, "\xe9\x01\x02\x03\x04");

	cr_assert_eq(count_ways(&record, FORM_BYTE), 0);
	/* nor behind a prefix; the prefix itself may become the opcode */
	record = RECORD(6, 0, "\x48\xe9\x01\x02\x03\x04");
	cr_assert_eq(way(&record, FORM_BYTE).opcode_at, 0);
}

/* ---- the forms that write several bytes ---- */

Test(pun, behind_form_leaves_the_first_byte)
{
	/* sub $0x188, %rsp: REX, opcode, 5 bytes */
	struct control_detour record = RECORD(7, 0, "\x48\x81\xec\x88\x01\x00\x00");
	struct pun_window window = way(&record, FORM_BEHIND);

	cr_assert_eq(window.opcode_at, 1);
	cr_assert_eq(window.free_bytes, PUN_WHOLE);
	/* mov %rdi, %rax: one byte is free, the high ones are the file's */
	record = RECORD(3, 0, "\x48\x89\xf8\x11\x22\x33");
	window = way(&record, FORM_BEHIND);
	cr_assert_eq(window.opcode_at, 1);
	cr_assert_eq(window.free_bytes, 1);
	cr_assert_eq(window.low, (int64_t)ADDRESS + 6 + 0x33221100);
	/* push %r12: nothing is free */
	record = RECORD(2, 0, "\x41\x54\x11\x22\x33\x44");
	cr_assert_eq(count_ways(&record, FORM_BEHIND), 0);
	/* xor %eax, %eax: no prefix */
	record = RECORD(2, 0, "\x31\xc0\x11\x22\x33\x44");
	cr_assert_eq(count_ways(&record, FORM_BEHIND), 0);
}

Test(pun, first_form_may_begin_with_prefixes_of_its_own)
{
	/* add $1, %rax */
	struct control_detour record = RECORD(4, 0, "\x48\x83\xc0\x01\x11\x22\x33\x44");
	struct pun_window window;
	unsigned int number = 0;

	for (unsigned int opcode_at = 0; opcode_at < 4; opcode_at++) {
		cr_assert(pun_next(&record, FORM_FIRST, &number, &window));
		cr_assert_eq(window.opcode_at, opcode_at);
		cr_assert_eq(window.free_bytes, 3 - opcode_at);
	}
	cr_assert_not(pun_next(&record, FORM_FIRST, &number, &window));
	/* one byte alone is the form "byte" */
	record = RECORD(1, 0, "\x55\x11\x22\x33\x44");
	cr_assert_eq(count_ways(&record, FORM_FIRST), 0);
}

Test(pun, first_form_of_five_bytes_leads_anywhere)
{
	struct control_detour record = RECORD(5, 0xf, "\xe9\x01\x02\x03\x04\x11\x22\x33\x44");
	struct pun_window window;
	unsigned int number = 0;

	cr_assert(pun_next(&record, FORM_FIRST, &number, &window));
	cr_assert_eq(window.free_bytes, PUN_WHOLE);
	cr_assert_eq(window.low, (int64_t)ADDRESS + 5 + INT32_MIN);
	cr_assert_eq(window.count, 0, "no landing");
}

/* ---- the bytes that stay ---- */

Test(pun, too_few_kept_bytes_leave_no_way)
{
	struct control_detour record = RECORD(1, 0, "\x55\x48\x89\xe5");

	cr_assert_eq(count_ways(&record, FORM_BYTE), 0);
	/* of those of mov %rdi, %rax the one that needs 2 is left, and not the one that needs 3 */
	record = RECORD(3, 0, "\x48\x89\xf8\x11\x22");
	cr_assert_eq(way(&record, FORM_BYTE).opcode_at, 0);
	cr_assert_eq(count_ways(&record, FORM_BEHIND), 0);
}

static int has_delta(const struct pun_window *window, int64_t delta)
{
	int count = 0;

	for (unsigned int i = 0; i < window->count; i++)
		count += window->deltas[i] == delta;
	return count == 1;
}

Test(pun, breakpoints_in_kept_bytes_lead_to_landings_of_their_own)
{
	struct control_detour record = RECORD(1, 0xf, "\x55\x11\x22\x33\x44");
	struct pun_window window = way(&record, FORM_BYTE);

	cr_assert_eq(window.count, 16);
	for (unsigned int set = 0; set < 16; set++) {
		static const uint8_t kept[] = { 0x11, 0x22, 0x33, 0x44 };
		uint8_t met[4];
		int32_t as_built, with;

		for (unsigned int i = 0; i < 4; i++)
			met[i] = set >> i & 1 ? 0xcc : kept[i];
		memcpy(&as_built, kept, 4);
		memcpy(&with, met, 4);
		cr_assert(has_delta(&window, (int64_t)with - as_built), "set %u", set);
	}
	cr_assert_eq(window.deltas[0], 0);
}

Test(pun, a_breakpoint_is_expected_where_an_instruction_begins)
{
	struct control_detour record = RECORD(1, 5, "\x55\x11\x22\x33\x44");
	struct pun_window window = way(&record, FORM_BYTE);

	cr_assert_eq(window.count, 4);
	cr_assert(has_delta(&window, 0xcc - 0x11));
	cr_assert(has_delta(&window, (0xcc - 0x33) << 16));
	cr_assert(has_delta(&window, (0xcc - 0x11) + ((0xcc - 0x33) << 16)));
	/* add $1, %eax: behind the distance it does not matter */
	record = RECORD(3, 0xe, "\x83\xc0\x01\x11\x22\x33\x44");
	window = way(&record, FORM_BYTE);
	cr_assert_eq(window.count, 2);
	cr_assert_eq(window.deltas[1], (int64_t)(int32_t)0xcc1101c0 - 0x221101c0);
}

/* ---- writing ---- */

/* Where the jump leads that begins there. */
static uint64_t leads_to(const uint8_t *code, unsigned int opcode_at)
{
	int32_t distance;

	cr_assert_eq(code[opcode_at], 0xe9);
	memcpy(&distance, code + opcode_at + 1, sizeof distance);
	return ADDRESS + opcode_at + DETOUR_JUMP_BYTES + (uint64_t)(int64_t)distance;
}

static void expect_written(const struct control_detour *record)
{
	for (int form = FORM_BYTE; form <= FORM_FIRST; form++) {
		struct pun_window window;
		unsigned int number = 0;

		while (pun_next(record, (enum detour_form)form, &number, &window)) {
			uint64_t size = UINT64_C(1) << 8 * window.free_bytes;
			uint64_t to = (uint64_t)window.low + 0x5aa55aa5 % size;
			uint8_t code[sizeof record->original];
			struct pun_bytes bytes;

			memcpy(code, record->original, sizeof code);
			pun_write(record, &window, to, &bytes);
			memcpy(code + bytes.at, bytes.bytes, bytes.count);
			cr_assert_eq(leads_to(code, window.opcode_at), to);
			cr_assert_leq(bytes.at + bytes.count, record->insn_bytes);
			cr_assert_eq(bytes.at == 0, form == FORM_FIRST || !window.opcode_at);
			cr_assert(form != FORM_BYTE || bytes.count == 1);
			/* what precedes the opcode are prefixes */
			for (unsigned int i = 0; i < window.opcode_at && form == FORM_FIRST; i++)
				cr_assert_eq(code[i], 0x26);
		}
	}
}

Test(pun, what_is_written_leads_where_it_is_asked_to)
{
	struct control_detour record = RECORD(1, 1, "\x55\x48\x89\xe5\x40");

	expect_written(&record);
	record = RECORD(3, 1, "\x48\x89\xf8\x48\x83\xc0\x81");
	expect_written(&record);
	record = RECORD(9, 1, "\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x11\x22\x33\x44");
	expect_written(&record);
}

/* ---- limits ---- */

Test(pun, jump_with_its_prefixes_has_at_most_15_bytes)
{
	/* 15 bytes; a jump behind all 11 segment prefixes would have 16 */
	struct control_detour record = RECORD(15, 0,
					      "\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e"
					      "\x90\x11\x22\x33\x44\x55\x66");
	struct pun_window window = { 0 };
	unsigned int number = 0;

	while (pun_next(&record, FORM_FIRST, &number, &window))
		cr_expect_leq(window.opcode_at + DETOUR_JUMP_BYTES, DETOUR_INSN_MAX);
	number = 0;
	while (pun_next(&record, FORM_BEHIND, &number, &window))
		cr_expect_leq(window.opcode_at + DETOUR_JUMP_BYTES, DETOUR_INSN_MAX);
	cr_assert_gt(number, 0);
}

Test(pun, built_in_breakpoint_needs_no_landing_of_its_own)
{
	/* ret; int3; int3; int3; int3 */
	struct control_detour record = RECORD(1, 0xf, "\xc3\xcc\xcc\xcc\xcc");
	struct pun_window window = way(&record, FORM_BYTE);

	cr_assert_eq(window.count, 1);
}
