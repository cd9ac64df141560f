/* SPDX-License-Identifier: MIT */
#include "target/code/callstack.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define MOST 64

static struct callstack *callstack;
static struct callstack_thread thread;
static uint8_t stack[16384];
static uint64_t returns[3]; /* where the functions return to, the innermost first */

static int add(struct dl_phdr_info *module, size_t bytes, void *data)
{
	(void)bytes, (void)data;
	callstack_module_add(callstack, *module->dlpi_name ? module->dlpi_name : "/proc/self/exe",
			     module->dlpi_addr);
	return 0;
}

/* As memcpy(3) does, which AddressSanitizer forbids between a frame's variables. */
static void stack_copy(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

/* What the kernel would have recorded of this thread, here. */
static __attribute__((noinline)) void record(void)
{
	static const int from[CALLSTACK_REGISTERS] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI,
						       REG_RDI, REG_RBP, REG_RSP, REG_R8,  REG_R9,
						       REG_R10, REG_R11, REG_R12, REG_R13, REG_R14,
						       REG_R15, REG_RIP };
	ucontext_t context;

	getcontext(&context);
	for (unsigned int i = 0; i < CALLSTACK_REGISTERS; i++)
		thread.registers[i] = (uint64_t)context.uc_mcontext.gregs[from[i]];
	stack_copy(stack, (const void *)thread.registers[CALLSTACK_RSP], 8192);
	thread.stack = stack;
	thread.stack_bytes = 8192;
	returns[0] = (uint64_t)__builtin_return_address(0);
}

static __attribute__((noinline)) void inner(void)
{
	record();
	returns[1] = (uint64_t)__builtin_return_address(0);
}

static __attribute__((noinline)) void outer(void)
{
	inner();
	returns[2] = (uint64_t)__builtin_return_address(0);
}

static void begin(void)
{
	volatile uint8_t above[sizeof(stack)] = {
		0
	}; /* else the copy goes past the stack's begin */

	callstack = callstack_new();
	outer();
	above[0]++;
}

static void end(void)
{
	callstack_free(callstack);
}

TestSuite(callstack, .init = begin, .fini = end);

Test(callstack, frames_are_the_calls)
{
	uint64_t frames[MOST];
	size_t count;
	int is_cut;

	dl_iterate_phdr(add, NULL);
	/* twice, as its state is kept */
	for (int i = 0; i < 2; i++) {
		count = callstack_frames(callstack, &thread, frames, MOST, &is_cut);
		cr_assert_geq(count, 4);
		cr_expect_eq(frames[0], thread.registers[CALLSTACK_RIP]);
		cr_expect_arr_eq(frames + 1, returns, sizeof(returns));
	}
}

Test(callstack, stack_that_ends_early_is_cut)
{
	uint64_t frames[MOST];
	int is_cut;

	dl_iterate_phdr(add, NULL);
	thread.stack_bytes = 16;
	cr_expect_eq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 1);
	cr_expect_eq(is_cut, 1);
}

Test(callstack, room_that_ends_early_is_cut)
{
	uint64_t frames[2];
	int is_cut;

	dl_iterate_phdr(add, NULL);
	cr_expect_eq(callstack_frames(callstack, &thread, frames, 2, &is_cut), 2);
	cr_expect_eq(frames[1], returns[0]);
	cr_expect_eq(is_cut, 1);
}

Test(callstack, nothing_known_gives_the_place_alone)
{
	uint64_t frames[MOST];
	int is_cut;

	cr_expect_eq(callstack_module_add(callstack, "/absent", 0), -ENOENT);
	cr_expect_eq(callstack_module_add(callstack, "/etc/passwd", 0), -ENOENT);
	cr_expect_eq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 1);
	cr_expect_eq(frames[0], thread.registers[CALLSTACK_RIP]);
	cr_expect_eq(is_cut, 1);
}

/* Code that was made at run time is in no module: its callers can't be found. */
Test(callstack, frame_without_a_module_is_cut)
{
	uint64_t frames[MOST];
	int is_cut;

	dl_iterate_phdr(add, NULL);
	for (size_t at = 0; at + 8 <= sizeof(stack); at += 8) {
		if (!memcmp(stack + at, &returns[1], 8))
			memcpy(stack + at, &(uint64_t){ 0x1000 }, 8);
	}
	thread.registers[CALLSTACK_RBP] = 0;
	cr_expect_eq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 3);
	cr_expect_eq(frames[2], 0x1000);
	cr_expect_eq(is_cut, 1);
}

/* The first code of the loader has no unwind table, and no caller. */
Test(callstack, entry_of_a_file_is_the_outermost)
{
	const ElfW(Ehdr) *loader = (const void *)getauxval(AT_BASE);
	uint64_t frames[MOST];
	int is_cut;

	dl_iterate_phdr(add, NULL);
	thread.registers[CALLSTACK_RIP] = getauxval(AT_BASE) + loader->e_entry;
	thread.registers[CALLSTACK_RBP] = 0;
	cr_expect_eq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 1);
	cr_expect_eq(is_cut, 0);
}

Test(callstack, hostile_registers_end_it)
{
	uint64_t frames[MOST];
	int is_cut;

	dl_iterate_phdr(add, NULL);
	thread.registers[CALLSTACK_RSP] = UINT64_MAX - 3;
	cr_expect_eq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 1);
	thread.registers[CALLSTACK_RIP] = 0;
	cr_expect_leq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), MOST);
}

static int add_copy(struct dl_phdr_info *module, size_t bytes, void *data)
{
	(void)bytes;
	if (!*module->dlpi_name)
		cr_assert_eq(callstack_module_add(callstack, data, module->dlpi_addr), 0);
	return 0;
}

/* A FIFO would hold us up, a file that is cut short while it is mapped would end us. */
Test(callstack, files_may_be_anything_and_be_cut_short, .timeout = 60)
{
	char dir[] = "/tmp/waymark-test-XXXXXX", path[64], command[128];
	uint64_t frames[MOST];
	int is_cut;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/exe", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(callstack_module_add(callstack, path, 0), -ENOENT);
	unlink(path);
	snprintf(command, sizeof(command), "cp /proc/%d/exe %s", (int)getpid(), path);
	cr_assert_eq(system(command), 0);
	dl_iterate_phdr(add_copy, path);
	cr_assert_eq(truncate(path, 0), 0);
	cr_expect_geq(callstack_frames(callstack, &thread, frames, MOST, &is_cut), 1);
	unlink(path);
	rmdir(dir);
}
