/* SPDX-License-Identifier: MIT */
/*
 * Hot traces, laid out again along the path that the profile knows: what the test votes for. The
 * code is a file's, so the translator may look ahead for registers and flags that are dead.
 */
#include "inside/engine/constant.h"
#include "inside/engine/profile.h"
#include "inside/engine/map.h"
#include "inside/engine/ranges.h"
#include "inside/engine/testing/fixture_code.h"
#include "inside/engine/testing/listing.h"
#include "inside/engine/translate.h"

#include <criterion/criterion.h>
#include <string.h>

#define VOTES 8

static uint64_t put(const void *bytes, size_t count)
{
	fixture_open_near();
	cr_assert_eq(profile_open(), 0);
	return fixture_put(FIXTURE_LOW, RANGE_FILE, bytes, count);
}

static void vote(uint64_t from, uint64_t to)
{
	for (int i = 0; i < VOTES; i++)
		profile_vote(from, to);
}

static struct trace *lay_out(uint64_t pc)
{
	struct trace *trace = translate_hot(fixture_translate(pc));

	cr_assert_not_null(trace);
	return trace;
}

/* int1; mov $7, %eax; syscall: the handler of the trap sees rax. */
Test(translate_hot, trap_leaves_with_all_registers)
{
	uint64_t pc = put(BYTES("\xf1\xb8\x07\x00\x00\x00\x0f\x05"));

	cr_assert(strstr(listing(lay_out(pc)), "+ leave 0/1 to code+0x1\n"));
}

/* ---- branches ---- */

/* je +1; push %rax; syscall */
#define JE "\x74\x01\x50\x0f\x05"

Test(translate_hot, branch_that_is_mostly_taken_continues_at_its_target)
{
	uint64_t pc = put(BYTES(JE));

	vote(pc, pc + 3);
	cr_assert_str_eq(listing(lay_out(pc)),
			 "0:2 jnz cold0\n"
			 "+ put 1/2 by rcx; jmp gate_syscall\n"
			 "cold0: leave 0/1 to code+0x2\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x3\n"
			 "block code+0x3: 1 in 2 bytes, last at 0, syscall\n"
			 "exit 1/2: syscall code+0x5\n");
}

Test(translate_hot, branch_that_is_seldom_taken_continues_behind)
{
	uint64_t pc = put(BYTES(JE));

	vote(pc, pc + 2);
	cr_assert_str_eq(listing(lay_out(pc)),
			 "0:2 jz cold0\n"
			 "1:1 push %rax\n"
			 "+ put 1/2 by rcx; jmp gate_syscall\n"
			 "cold0: leave 0/1 to code+0x3\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x3\n"
			 "block code+0x2: 2 in 3 bytes, last at 1, syscall\n"
			 "exit 1/2: syscall code+0x5\n");
}

/* loop -3, with push %rax before it */
Test(translate_hot, loop_that_is_mostly_taken_is_unrolled)
{
	uint64_t pc = put(BYTES("\x50\xe2\xfd"));
	const struct trace *trace;

	vote(pc, pc);
	trace = lay_out(pc);
	cr_assert_eq(trace->blocks, 8);
	for (uint32_t i = 0; i < trace->blocks; i++)
		cr_assert_eq(trace->starts[i], pc);
	cr_assert_eq(trace->exits, 9);
}

/* ---- registers and flags that are dead ---- */

/* Behind the branch eax is set at once: the exit's id goes by it. */
Test(translate_hot, exit_goes_by_a_register_that_is_dead)
{
	/* je +5; mov $1, %eax; mov $2, %eax */
	uint64_t pc = put(BYTES("\x74\x05\xb8\x01\x00\x00\x00\xb8\x02\x00\x00\x00"));

	vote(pc, pc + 2);
	cr_assert_str_eq(listing(lay_out(pc)),
			 "0:2 jz cold0\n"
			 "1:5 mov $0x1, %eax\n"
			 "1:5 mov $0x2, %eax\n"
			 "+ leave 1/2 to code+0xc\n"
			 "cold0: put 0/1 by rax; jmp exit\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x7\n"
			 "block code+0x2: 2 in 10 bytes, last at 5, fall\n");
}

/* xor %ecx, %ecx: who comes by the map need not load rcx. */
Test(translate_hot, landing_loads_no_rcx_that_is_dead)
{
	uint64_t pc = put(BYTES("\x31\xc9"));

	cr_assert_str_eq(listing(lay_out(pc)), "landing with rcx lost\n"
					       "0:2 xor %ecx, %ecx\n"
					       "+ leave 0/1 to code+0x2\n"
					       "block code+0x0: 1 in 2 bytes, last at 0, fall\n");
}

/* The same code, writable: it may be other code by then. */
Test(translate_hot, code_that_may_change_has_nothing_dead)
{
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, RANGE_FILE | RANGE_WRITABLE, BYTES("\x31\xc9"));
	cr_assert_str_eq(listing(lay_out(pc)), "0:2 xor %ecx, %ecx\n"
					       "+ leave 0/1 to code+0x2\n"
					       "block code+0x0: 1 in 2 bytes, last at 0, fall\n");
}

/* ---- returns ---- */

Test(translate_hot, return_to_its_call_compares_where_flags_are_dead)
{
	/* call +2; xor %eax, %eax; ret */
	uint64_t pc = put(BYTES("\xe8\x02\x00\x00\x00\x31\xc0\xc3"));

	cr_assert_str_eq(
		listing(lay_out(pc)),
		"0:5 push code+0x5\n"
		"1:1 cmpl $code+0x5, (%rsp)\n"
		"+ jnz cold0\n"
		"+ lea 0x8(%rsp), %rsp\n"
		"2:2 xor %eax, %eax\n"
		"+ save rcx\n"
		"+k put 1/3 by rcx\n"
		"2:1kr mov (%rsp), %ecx\n"
		"+k lea 0x8(%rsp), %rsp; jmp map\n"
		"cold0: save rcx; put 0/2 by rcx; mov (%rsp), %ecx; lea 0x8(%rsp), %rsp; jmp map\n"
		"block code+0x0: 1 in 5 bytes, last at 0, call code+0x7\n"
		"block code+0x7: 1 in 1 bytes, last at 0, return\n"
		"block code+0x5: 2 in 3 bytes, last at 2, return\n"
		"exit 0/2: return, drops 0\n"
		"exit 1/3: return, drops 0\n");
}

Test(translate_hot, return_that_mostly_leads_to_one_place_continues_there)
{
	uint64_t pc = put(BYTES("\xc3\x0f\x05")); /* ret; syscall */

	vote(pc, pc + 1);
	cr_assert_str_eq(
		listing(lay_out(pc)),
		"+ save rcx\n"
		"0:1k mov (%rsp), %ecx\n"
		"+k lea -code+0x1(%rcx), %ecx; jrcxz over 14; load rcx; jmp cold0; load rcx\n"
		"+ lea 0x8(%rsp), %rsp\n"
		"+ put 1/2 by rcx; jmp gate_syscall\n"
		"cold0: save rcx; put 0/1 by rcx; mov (%rsp), %ecx; lea 0x8(%rsp), %rsp; jmp map\n"
		"block code+0x0: 1 in 1 bytes, last at 0, return\n"
		"block code+0x1: 1 in 2 bytes, last at 0, syscall\n"
		"exit 0/1: return, drops 0\n"
		"exit 1/2: syscall code+0x3\n");
}

Test(translate_hot, return_of_a_function_that_moved_its_stack_goes_by_the_map)
{
	/* call +1; hlt; pop %rax; ret */
	uint64_t pc = put(BYTES("\xe8\x01\x00\x00\x00\xf4\x58\xc3"));

	cr_assert_str_eq(listing(lay_out(pc)),
			 "0:5 push code+0x5\n"
			 "1:1 pop %rax\n"
			 "+ save rcx\n"
			 "+k put 0/2 by rcx\n"
			 "1:1kr mov (%rsp), %ecx\n"
			 "+k lea 0x8(%rsp), %rsp; jmp map\n"
			 "block code+0x0: 1 in 5 bytes, last at 0, call code+0x6\n"
			 "block code+0x6: 2 in 2 bytes, last at 1, return\n"
			 "exit 0/2: return, drops 0\n");
}

/* Its return may need the flags elsewhere, which a comparison destroys. */
Test(translate_hot, return_of_a_function_that_changes_its_return_goes_by_the_map)
{
	/* call +1; hlt; addq $1, (%rsp); ret */
	uint64_t pc = put(BYTES("\xe8\x01\x00\x00\x00\xf4\x48\x83\x04\x24\x01\xc3"));

	cr_assert_not_null(strstr(listing(lay_out(pc)), "1:1kr mov (%rsp), %ecx\n"
							"+k lea 0x8(%rsp), %rsp; jmp map\n"));
}

Test(translate_hot, return_without_its_call_keeps_flags_that_are_dead_at_its_target)
{
	uint64_t pc = put(BYTES("\xc3\x31\xc0\x0f\x05")); /* ret; xor %eax, %eax; syscall */

	vote(pc, pc + 1);
	cr_assert_not_null(strstr(listing(lay_out(pc)), "0:1k mov (%rsp), %ecx\n"
							"+k lea -code+0x1(%rcx), %ecx; jrcxz"));
}

/* Calls to the next instruction each, then a return. */
static const char *listing_of_calls(unsigned int count)
{
	char code[5 * 20 + 1];

	for (unsigned int i = 0; i < count; i++)
		memcpy(code + 5 * i, "\xe8\x00\x00\x00\x00", 5);
	code[5 * count] = (char)0xc3;
	return listing(lay_out(put(code, 5 * count + 1)));
}

Test(translate_hot, return_of_16_calls_deep_is_in_the_trace)
{
	cr_assert_not_null(strstr(listing_of_calls(16), "16:1k mov (%rsp), %ecx\n"));
}

Test(translate_hot, return_of_17_calls_deep_goes_by_the_map)
{
	cr_assert_not_null(
		strstr(listing_of_calls(17), "put 0/18 by rcx\n17:1kr mov (%rsp), %ecx"));
}

/* ---- indirect branches ---- */

Test(translate_hot, indirect_jump_that_mostly_leads_to_one_place_continues_there)
{
	uint64_t pc = put(BYTES("\xff\xe0\x0f\x05")); /* jmp *%rax; syscall */

	vote(pc, pc + 2);
	cr_assert_str_eq(listing(lay_out(pc)),
			 "+ save rcx\n"
			 "0:2k mov %eax, %ecx\n"
			 "+k lea -code+0x2(%rcx), %ecx; jrcxz over 5; jmp cold0; load rcx\n"
			 "+ put 1/2 by rcx; jmp gate_syscall\n"
			 "cold0: put 0/1 by rcx; mov %eax, %ecx; jmp map\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
			 "block code+0x2: 1 in 2 bytes, last at 0, syscall\n"
			 "exit 0/1: to rax\n"
			 "exit 1/2: syscall code+0x4\n");
}

Test(translate_hot, indirect_call_that_mostly_leads_to_one_place_returns_in_the_trace)
{
	/* call *(%rbx); syscall; ret */
	uint64_t pc = put(BYTES("\xff\x13\x0f\x05\xc3"));

	vote(pc, pc + 4);
	cr_assert_str_eq(
		listing(lay_out(pc)),
		"+ save rcx\n"
		"0:2k mov (%rbx), %rcx; save rcx target; push code+0x2\n"
		"+k lea -code+0x4(%rcx), %ecx; jrcxz over 5; jmp cold0; load rcx\n"
		"+ save rcx\n"
		"1:1k mov (%rsp), %ecx\n"
		"+k lea -code+0x2(%rcx), %ecx; jrcxz over 14; load rcx; jmp cold1; load rcx\n"
		"+ lea 0x8(%rsp), %rsp\n"
		"+ put 2/3 by rcx; jmp gate_syscall\n"
		"cold0: put 0/1 by rcx; load rcx target; mov %ecx, %ecx; jmp map\n"
		"cold1: save rcx; put 1/2 by rcx; mov (%rsp), %ecx; lea 0x8(%rsp), %rsp; jmp map\n"
		"block code+0x0: 1 in 2 bytes, last at 0, call indirect\n"
		"block code+0x4: 1 in 1 bytes, last at 0, return\n"
		"block code+0x2: 1 in 2 bytes, last at 0, syscall\n"
		"exit 0/1: to memory\n"
		"exit 1/2: return, drops 0\n"
		"exit 2/3: syscall code+0x4\n");
}

Test(translate_hot, indirect_jump_that_leads_to_several_places_goes_by_the_map)
{
	uint64_t pc = put(BYTES("\xff\xe0\x0f\x05"));

	for (int i = 0; i < VOTES; i++) {
		vote(pc, pc + 2);
		vote(pc, pc + 4);
	}
	cr_assert_str_eq(listing(lay_out(pc)),
			 "+ save rcx\n"
			 "+k put 0/1 by rcx\n"
			 "0:2kr mov %eax, %ecx\n"
			 "+k jmp map\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, jump indirect\n"
			 "exit 0/1: to rax\n");
}

/* The page has the code of two places: an address of it alone does not say which. */
Test(translate_hot, place_whose_low_half_is_not_its_own_is_no_guess)
{
	uint64_t pc = put(BYTES("\xff\xe0\x0f\x05"));

	vote(pc, pc + 2);
	ranges_add(pc + (UINT64_C(1) << 32), 1, RANGE_FILE);
	cr_assert(map_is_shared(pc));
	cr_assert_null(strstr(listing(lay_out(pc)), "jrcxz"));
}

/* ---- constants ---- */

/* jmp *-14(%rip); syscall: the value is in the eight bytes before */
static uint64_t put_constant(uint64_t value)
{
	uint64_t pc = put(BYTES("\xff\x25\xf2\xff\xff\xff\x0f\x05"));

	fixture_store(pc - 8, &value, sizeof(value));
	return pc;
}

Test(translate_hot, jump_through_constant_memory_continues_at_its_target)
{
	uint64_t pc = put_constant(FIXTURE_LOW + 4096 - 2);

	constant_add(pc - 8, 8);
	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:6\n"
			 "+ put 0/2 by rcx; jmp gate_syscall\n"
			 "block code+0x0: 1 in 6 bytes, last at 0, jump indirect\n"
			 "block code+0x6: 1 in 2 bytes, last at 0, syscall\n"
			 "exit 0/2: syscall code+0x8\n");
}

Test(translate_hot, jump_through_memory_that_was_constant_goes_by_the_map)
{
	uint64_t pc = put_constant(FIXTURE_LOW + 4096 - 2);

	constant_add(pc - 8, 8);
	constant_drop(pc - 4, 1);
	cr_assert_not_null(strstr(listing(fixture_translate(pc)), "jmp map\n"));
}
