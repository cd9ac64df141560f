/* SPDX-License-Identifier: MIT */
/* Where translations end: at pages, at limits; and when they hold no longer, as code changes. */
#include "inside/engine/cache.h"
#include "inside/engine/channel.h"
#include "inside/engine/gate.h"
#include "inside/engine/kernel_writes.h"
#include "inside/engine/map.h"
#include "inside/engine/pages.h"
#include "inside/engine/ranges.h"
#include "inside/engine/testing/fixture_code.h"
#include "inside/engine/testing/listing.h"
#include "inside/engine/translate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#define PAGE UINT64_C(4096)
#define WRITES_UNTIL_CHECKED 12
#define LOOKS_UNTIL_CALM 4096

/* ---- the ends of pages ---- */

/* Code in the last `before` bytes of a page, and on in the next, which has these RANGE_* flags. */
static uint64_t put_across(size_t before, uint32_t flags, const void *bytes, size_t count)
{
	uint64_t next = FIXTURE_LOW + PAGE;

	fixture_open();
	fixture_map(FIXTURE_LOW, PAGE, 0);
	fixture_map(next, PAGE, flags);
	fixture_store(next - before, bytes, count);
	return next - before;
}

Test(translate_pages, block_continues_on_next_page)
{
	/* nop; mov $7, %eax; syscall */
	uint64_t pc = put_across(3, 0, BYTES("\x90\xb8\x07\x00\x00\x00\x0f\x05"));

	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:1 nop\n"
			 "0:5 mov $0x7, %eax\n"
			 "+ put 0/1 by rcx; jmp gate_syscall\n"
			 "block code+0x0: 3 in 8 bytes, last at 6, syscall\n"
			 "exit 0/1: syscall code+0x8\n");
}

Test(translate_pages, cut_instruction_ends_the_block_before_it)
{
	uint64_t pc;
	int error = 0;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, BYTES("\x90\x50\xb8\x07\x00")); /* nop; push %rax; mov */
	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:1 nop\n"
			 "0:1 push %rax\n"
			 "+ leave 0/1 to code+0x2\n"
			 "block code+0x0: 2 in 2 bytes, last at 1, fall\n");
	cr_assert_null(translate(pc + 2, gate_read, &error));
	cr_assert_eq(error, -ENOEXEC);
}

/* An instruction has 15 bytes at most: the page is asked for that far ahead. */
Test(translate_pages, trace_ends_before_code_that_others_may_write)
{
	uint64_t pc = put_across(16, RANGE_SHARED, BYTES("\x90\x51\x52\x53"));

	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:1 nop\n"
			 "0:1 push %rcx\n"
			 "+ leave 0/1 to code+0x2\n"
			 "block code+0x0: 2 in 2 bytes, last at 1, fall\n");
	cr_assert_not(fixture_translate(pc)->is_checked);
}

/* ---- limits ---- */

static uint64_t put_nops(size_t count)
{
	uint64_t at = FIXTURE_LOW + PAGE - count;
	char nops[1024];

	memset(nops, 0x90, sizeof(nops));
	fixture_open();
	fixture_map(FIXTURE_LOW, PAGE, 0);
	fixture_store(at, nops, count);
	return at;
}

Test(translate_pages, block_has_at_most_64_instructions)
{
	uint64_t pc = put_nops(TRAIL_BLOCK_INSTRUCTIONS_MAX + 1);
	const struct trace *trace = fixture_translate(pc);

	cr_assert_eq(trace->blocks, 2);
	cr_assert_eq(trace->starts[1], pc + TRAIL_BLOCK_INSTRUCTIONS_MAX);
	cr_assert_eq(trace->exits, 1);
}

Test(translate_pages, block_of_64_instructions_is_one)
{
	const struct trace *trace = fixture_translate(put_nops(TRAIL_BLOCK_INSTRUCTIONS_MAX));

	cr_assert_eq(trace->blocks, 1);
}

Test(translate_pages, trace_has_at_most_256_instructions)
{
	uint64_t pc = put_nops(TRACE_INSTRUCTIONS_MAX + 10);
	const struct trace *trace = fixture_translate(pc);

	cr_assert_eq(trace->blocks, TRACE_INSTRUCTIONS_MAX / TRAIL_BLOCK_INSTRUCTIONS_MAX);
	cr_assert_eq(trace->exits, 1);
	cr_assert_eq(trace_exit_of(trace->first_exit)->target, pc + TRACE_INSTRUCTIONS_MAX);
}

/* Jumps to the next instruction each: blocks of one. */
Test(translate_pages, new_trace_has_at_most_16_blocks)
{
	const struct trace *trace;
	char jumps[20][2];
	uint64_t pc;

	for (int i = 0; i < 20; i++)
		memcpy(jumps[i], "\xeb\x00", 2);
	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, jumps, sizeof(jumps));
	trace = fixture_translate(pc);
	cr_assert_eq(trace->blocks, 16);
	cr_assert_eq(trace_exit_of(trace->first_exit)->target, pc + 32);
	cr_assert_eq(trace_exit_of(trace->first_exit)->blocks, 16);
}

/* ---- operands that are far away ---- */

/* mov 0x7ff00000(%rip), %eax: in reach of the code, not of a cache that is below it. */
#define FAR "\x8b\x05\x00\x00\xf0\x7f"

Test(translate_pages, far_operand_ends_the_block_before_it)
{
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_HIGH, 0, BYTES("\x90" FAR));
	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:1 nop\n"
			 "+ leave 0/1 to code+0x1\n"
			 "block code+0x0: 1 in 1 bytes, last at 0, fall\n");
}

Test(translate_pages, far_operand_has_a_cache_in_between)
{
	char expected[256];
	const struct trace *near, *far;
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_HIGH, 0, BYTES("\x90" FAR));
	near = fixture_translate(pc);
	far = fixture_translate(pc + 1);
	snprintf(expected, sizeof(expected),
		 "0:6 mov 0x%" PRIx64 ", %%eax\n"
		 "+ leave 0/1 to code+0x6\n"
		 "block code+0x0: 1 in 6 bytes, last at 0, fall\n",
		 pc + 7 + 0x7ff00000);
	cr_assert_str_eq(listing(far), expected);
	cr_assert_neq(cache_exit_jump(near->head), cache_exit_jump(far->head));
}

/* ---- links ---- */

Test(translate_pages, exit_leads_to_a_trace_that_is_there)
{
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, BYTES("\x74\x01\x50\xf4")); /* je to hlt; push %rax; hlt */
	fixture_translate(pc + 3);
	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:2 jz cold0\n"
			 "1:1 push %rax\n"
			 "1:1 hlt\n"
			 "+ leave 1/2 to code+0x4\n"
			 "cold0: leave 0/1 to code+0x3, linked\n"
			 "block code+0x0: 1 in 2 bytes, last at 0, branch code+0x3\n"
			 "block code+0x2: 2 in 2 bytes, last at 1, stop\n");
}

Test(translate_pages, exit_is_linked_later_and_unlinked_when_its_target_is_gone)
{
	struct trace *from, *to;
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, BYTES("\x7e\xfd\x50")); /* jle -1 */
	from = fixture_translate(pc);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2\n"));
	to = fixture_translate(pc + 2);
	translate_link(trace_exit_of(from->first_exit), to);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2, linked\n"));
	trace_kill(to);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2\n"));
}

/* What the engine looks at when it is entered is entered only through the engine. */
Test(translate_pages, trace_of_fnstenv_is_never_linked_to)
{
	struct trace *from, *to;
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, 0, BYTES("\x90\xd9\x30")); /* nop; fnstenv (%rax) */
	from = fixture_translate(pc);
	to = fixture_translate(pc + 1);
	cr_assert(to->is_x87_shown);
	translate_link(trace_exit_of(from->first_exit), to);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x1\n"));
	cr_assert_neq(((const uint64_t *)listing_map())[pc + 1], (uint64_t)to->landing);
}

/* ---- code that changes ---- */

static const struct trace *translate_writable(uint64_t *pc)
{
	fixture_open();
	*pc = fixture_put(FIXTURE_LOW, RANGE_WRITABLE, BYTES("\x50\x51\x52")); /* push */
	return fixture_translate(*pc);
}

Test(translate_pages, writable_page_is_guarded)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	cr_assert_not(trace->is_checked);
	cr_assert(pages_is_guarded(pc));
	cr_assert_not(fixture_is_writable(pc));
	cr_assert_eq(fixture_translate(pc), trace);
}

Test(translate_pages, write_to_guarded_page_drops_its_traces)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	cr_assert(pages_written(pc, pc - PAGE));
	cr_assert(fixture_is_writable(pc));
	cr_assert(trace->is_dead);
	fixture_store(pc, "\x53", 1);
	cr_assert_str_eq(listing(fixture_translate(pc)),
			 "0:1 push %rbx\n"
			 "0:1 push %rcx\n"
			 "0:1 push %rdx\n"
			 "+ leave 0/1 to code+0x3\n"
			 "block code+0x0: 3 in 3 bytes, last at 2, fall\n");
	cr_assert_not(fixture_is_writable(pc), "guarded again");
}

Test(translate_pages, page_that_is_written_often_is_checked_instead)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	for (int i = 0; i < WRITES_UNTIL_CHECKED; i++) {
		cr_assert_not(trace->is_checked, "after %d writes", i);
		cr_assert(pages_written(pc, pc - PAGE));
		trace = fixture_translate(pc);
	}
	cr_assert(trace->is_checked);
	cr_assert_eq(trace->code_bytes, 3);
	cr_assert(fixture_is_writable(pc));
}

/* It may change between any two instructions. */
Test(translate_pages, page_that_writes_itself_is_translated_one_by_one)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	cr_assert(pages_written(pc, pc));
	trace = fixture_translate(pc);
	cr_assert(trace->is_checked);
	cr_assert_str_eq(listing(trace), "0:1 push %rax\n"
					 "+ leave 0/1 to code+0x1\n"
					 "block code+0x0: 1 in 1 bytes, last at 0, fall\n");
}

Test(translate_pages, checked_trace_holds_while_its_code_does)
{
	uint64_t pc;
	const struct trace *trace;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, RANGE_SHARED, BYTES("\x50\x51\x52"));
	trace = fixture_translate(pc);
	cr_assert_eq(trace->code_bytes, 3);
	cr_assert_eq(fixture_translate(pc), trace);
	cr_assert_not(trace->is_dead);
	fixture_store(pc + 2, "\x53", 1);
	cr_assert_neq(fixture_translate(pc), trace);
	cr_assert(trace->is_dead);
	cr_assert_not_null(strstr(listing(fixture_translate(pc)), "0:1 push %rbx\n"));
}

Test(translate_pages, checked_trace_has_a_map_entry_that_is_no_fault)
{
	uint64_t pc, landing = 1;
	uint8_t jump[64];
	uint32_t map;

	fixture_open_near();
	map_emit_jump(jump);
	memcpy(&map, jump + 3, sizeof(map)); /* jmp *map(,%rcx,8) */
	pages_share(1);
	pc = fixture_put(FIXTURE_LOW, RANGE_WRITABLE, BYTES("\x50\x51\x52"));
	cr_assert(fixture_translate(pc)->is_checked);
	cr_assert_eq(fixture_load(&landing, map + (uint64_t)(uint32_t)pc * 8, sizeof(landing)), 0);
	cr_assert_eq(landing, (uint64_t)gate_miss);
}

Test(translate_pages, checked_trace_has_one_block_of_16_instructions)
{
	const struct trace *trace;
	char nops[20];
	uint64_t pc;

	memset(nops, 0x90, sizeof(nops));
	fixture_open();
	pc = fixture_put(FIXTURE_LOW, RANGE_SHARED, nops, sizeof(nops));
	trace = fixture_translate(pc);
	cr_assert_eq(trace->blocks, 1);
	cr_assert_eq(trace->code_bytes, 16);
	cr_assert_eq(trace_exit_of(trace->first_exit)->target, pc + 16);
}

Test(translate_pages, checked_trace_is_never_linked_to)
{
	uint64_t pc = put_across(16, RANGE_WRITABLE, BYTES("\x90\x51\x52\x53"));
	struct trace *from, *to;

	pages_share(1);
	from = fixture_translate(pc);
	to = fixture_translate(pc + 2);
	cr_assert(to->is_checked);
	translate_link(trace_exit_of(from->first_exit), to);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2\n"));
	cr_assert_neq(((const uint64_t *)listing_map())[pc + 2], (uint64_t)to->landing);
}

/* The memory is written elsewhere as well, and no guard meets that. */
Test(translate_pages, shared_code_compares_itself)
{
	uint64_t pc;

	fixture_open();
	pc = fixture_put(FIXTURE_LOW, RANGE_SHARED, BYTES("\x50\x51\x52\x53\x50\x51\xc3"));
	cr_assert_str_eq(
		listing(fixture_translate(pc)),
		"+ save rcx\n"
		"+kc mov code+0x0, %ecx; lea -0x53525150(%rcx), %ecx; jrcxz over 5; jmp cold0\n"
		"+kc movzxw code+0x4, %ecx; lea -0x5150(%rcx), %ecx; jrcxz over 5; jmp cold0\n"
		"+kc movzxb code+0x6, %ecx; lea -0xc3(%rcx), %ecx; jrcxz over 5; jmp cold0\n"
		"+k load rcx\n"
		"0:1 push %rax\n"
		"0:1 push %rcx\n"
		"0:1 push %rdx\n"
		"0:1 push %rbx\n"
		"0:1 push %rax\n"
		"0:1 push %rcx\n"
		"+ save rcx\n"
		"+k put 0/1 by rcx\n"
		"0:1kr mov (%rsp), %ecx\n"
		"+k lea 0x8(%rsp), %rsp; jmp map\n"
		"cold0: mov $code+0x0, %rcx; jmp gate_changed\n"
		"block code+0x0: 7 in 7 bytes, last at 6, return\n"
		"exit 0/1: return, drops 0\n");
}

Test(translate_pages, shared_code_is_linked_to)
{
	uint64_t pc = put_across(16, RANGE_SHARED, BYTES("\xeb\x00\x51\x52\x53"));
	struct trace *from = fixture_translate(pc), *to = fixture_translate(pc + 2);

	cr_assert_not(to->is_checked);
	cr_assert_not_null(to->code);
	translate_link(trace_exit_of(from->first_exit), to);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2, linked\n"));
	cr_assert_eq(((const uint64_t *)listing_map())[(uint32_t)(pc + 2)], (uint64_t)to->landing);
	fixture_store(pc + 2, "\x53", 1);
	cr_assert_neq(fixture_translate(pc + 2), to);
	cr_assert(to->is_dead);
	cr_assert_not_null(strstr(listing(from), "leave 0/1 to code+0x2\n"));
}

Test(translate_pages, checked_page_that_stays_calm_is_guarded_again)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	for (int i = 0; i < WRITES_UNTIL_CHECKED; i++) {
		pages_written(pc, pc - PAGE);
		trace = fixture_translate(pc);
	}
	for (int i = 0; i < LOOKS_UNTIL_CALM; i++) {
		cr_assert(trace->is_checked, "after %d looks", i);
		trace = fixture_translate(pc);
	}
	cr_assert_not(trace->is_checked);
	cr_assert_not(fixture_is_writable(pc));
}

/* Others that write the memory do not have our handlers. */
Test(translate_pages, no_page_is_guarded_while_others_share_the_memory)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	pages_share(1);
	cr_assert(fixture_is_writable(pc));
	cr_assert(trace->is_dead);
	trace = fixture_translate(pc);
	cr_assert(trace->is_checked);
	cr_assert(fixture_is_writable(pc));
	pages_share(-1);
	cr_assert_not(fixture_translate(pc)->is_checked);
	cr_assert_not(fixture_is_writable(pc));
}

static void call_begin(struct thread *thread, uint64_t number, uint64_t at, uint64_t bytes)
{
	thread->regs.gpr[0] = number;
	thread->regs.gpr[6] = at;
	thread->regs.gpr[2] = bytes;
	thread->call_next = 1;
	kernel_writes_open(thread);
}

Test(translate_pages, page_that_a_call_writes_is_checked_until_it_is_over)
{
	static struct thread thread;
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	fixture_thread = &thread;
	call_begin(&thread, SYS_read, pc + 10 * PAGE, 8);
	cr_assert_not(trace->is_dead, "elsewhere");
	call_begin(&thread, SYS_read, pc - 8, 9);
	cr_assert(trace->is_dead);
	cr_assert(fixture_is_writable(pc));
	trace = fixture_translate(pc);
	cr_assert(trace->is_checked);
	thread.call_next = 0;
	for (int i = 0; i < LOOKS_UNTIL_CALM && trace->is_checked; i++)
		trace = fixture_translate(pc);
	cr_assert_not(trace->is_checked);
	call_begin(&thread, SYS_getpid, pc, 8);
	cr_assert_not(trace->is_dead, "it writes nothing");
	call_begin(&thread, 1000, 0, 0);
	cr_assert(trace->is_dead, "not known: it may write anywhere");
}

Test(translate_pages, exposed_page_is_never_guarded_again)
{
	uint64_t pc;
	const struct trace *trace = translate_writable(&pc);

	pages_expose(pc, 4);
	cr_assert(trace->is_dead);
	for (int i = 0; i < 3 * LOOKS_UNTIL_CALM; i++)
		cr_assert_not_null(fixture_translate(pc)->code);
	cr_assert(fixture_is_writable(pc));
}
