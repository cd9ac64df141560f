/* SPDX-License-Identifier: MIT */
/*
 * Where the program is, by an address in translated code. The test's thread has a struct thread by
 * gs, as translated code does; it calls nothing else of the engine's threads.
 */
#include "inside/engine/state.h"
#include "inside/engine/testing/fixture_code.h"

#include <asm/prctl.h>
#include <criterion/criterion.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct thread thread = { .self = &thread, .generation = 1 };

static struct trace *translated(const void *code, size_t bytes)
{
	fixture_open_near();
	cr_assert_eq(syscall(SYS_arch_prctl, ARCH_SET_GS, &thread), 0);
	return fixture_translate(fixture_put(FIXTURE_LOW, 0, code, bytes));
}

static void is_at(struct trace *trace, uint64_t cache, uint64_t pc, uint32_t block, uint32_t ran)
{
	struct state state;

	state_look(&state, cache);
	cr_expect_eq(state.kind, STATE_AT);
	cr_expect_eq(state.trace, trace);
	cr_expect_eq(state.pc, pc, "code+%lx, not +%lx", state.pc - trace->pc, pc - trace->pc);
	cr_expect_eq(state.block, block);
	cr_expect_eq(state.ran, ran);
}

Test(state, instruction_behind_elided_jumps_is_found_by_its_code)
{
	/* push %rax; jmp 1f; 2: jmp 3f; 1: jmp 2b; 3: push %rbx */
	struct trace *trace = translated("\x50\xeb\x02\xeb\x02\xeb\xfc\x53", 8);
	uint64_t head = (uint64_t)trace->head;

	is_at(trace, head, trace->pc, 0, 0);
	is_at(trace, head + 1, trace->pc + 7, 3, 0);
}

Test(state, elided_jump_before_an_exit_is_found)
{
	struct trace *trace = translated("\xeb\xfe", 2);

	is_at(trace, (uint64_t)trace->head, trace->pc, 0, 0);
}

/* Which left by its last exit. */
static void left_from(const void *code, size_t bytes, uint32_t at, uint32_t ran)
{
	struct trace *trace = translated(code, bytes);
	struct state state;

	state_left(&state, &thread, trace_exit_of(trace->first_exit + trace->exits - 1u));
	cr_expect_eq(state.pc, trace->pc + at, "code+%lx, not +%x", state.pc - trace->pc, at);
	cr_expect_eq(state.ran, ran);
	cr_expect_eq(state.left, 1);
}

Test(state, return_that_left_is_found)
{
	left_from("\xeb\x01\x06\x50\x53\xc3", 6, 5, 2); /* jmp 1f; 1: push; push; ret */
}

Test(state, indirect_call_that_left_is_found)
{
	left_from("\x50\xff\xd2", 3, 1, 1); /* push %rax; call *%rdx */
}

Test(state, jump_by_memory_that_left_is_found)
{
	left_from("\xff\x22", 2, 0, 0); /* jmp *(%rdx) */
}
