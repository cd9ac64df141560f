/* SPDX-License-Identifier: MIT */
/* The functions that tests of detours divert, and how each is to be diverted. */
#include "inside/detour/testing/fixture.h"

/*
 * The forms that a jump has follow from the bytes. A distance that ends in a byte of 0x80 or more
 * leads below the program, where nothing is. One that is near 0 leads into the program itself, so
 * it can't be had.
 */
#define FUNCTION(name, body)                                                                       \
	__asm__(".text\n"                                                                          \
		".globl " name "\n"                                                                \
		".type " name ", @function\n"                                                      \
		".balign 16\n" name ":\n\t.cfi_startproc\n\t" body "\n\t.cfi_endproc\n"            \
		".size " name ", . - " name "\n")

FUNCTION("trial_victim", "mov %rdi, %rax\n\tadd $1, %rax\n\tret");
FUNCTION("trial_first", "mov $1, %eax\n\tadd %rdi, %rax\n\tret");
FUNCTION("trial_behind", "movabs $0, %rax\n\tlea 1(%rdi), %rax\n\tret");
FUNCTION("trial_pushes", "nop\n\t"
			 "push %rbp\n\t"
			 ".cfi_adjust_cfa_offset 8\n\t"
			 ".cfi_offset rbp, -16\n\t"
			 "mov %rsp, %rbp\n\t"
			 "lea 1(%rdi), %rax\n\t"
			 "pop %rbp\n\t"
			 ".cfi_adjust_cfa_offset -8\n\t"
			 "ret");
FUNCTION("trial_calls", "push %rbx\n\t"
			".cfi_adjust_cfa_offset 8\n\t"
			".cfi_offset rbx, -16\n\t"
			"mov %rdi, %rbx\n\t"
			"mov $0, %eax\n\t"
			"call *%rsi\n\t"
			"add %rbx, %rax\n\t"
			"pop %rbx\n\t"
			".cfi_adjust_cfa_offset -8\n\t"
			"ret");
FUNCTION("trial_tail", "mov %rdi, %rax\n\tlea 1(%rdi), %rdi\n\tjmp trial_victim");
FUNCTION("trial_long", "rep lodsb\n\tmov %rsi, %rax\n\tret");
FUNCTION("trial_float", "addsd %xmm0, %xmm0\n\tnop\n\tret");

#define WISH(which, ...)                                                                           \
	const struct trial_wish trial_##which##_wish = {                                           \
		.function = (void (*)(void))trial_##which, .name = #which, __VA_ARGS__             \
	}

WISH(victim, .insn_bytes = 3, .starts = 1, .argument = 1);
WISH(first, .insn_bytes = 5, .starts = 9, .argument = 1);
WISH(behind, .insn_bytes = 10, .starts = 1, .argument = 1);
WISH(pushes, .skipped = 1, .pushes = 1, .pushed_bytes = 1, .insn_bytes = 3, .starts = 1,
     .argument = 1);
WISH(calls, .insn_bytes = 1, .starts = 9, .argument = 1);
WISH(tail, .insn_bytes = 3, .starts = 1, .argument = 1);
WISH(long, .insn_bytes = 2, .starts = 9, .argument = 1);
WISH(float, .insn_bytes = 4, .starts = 3, .flags = DETOUR_RETURN_FLOAT);
