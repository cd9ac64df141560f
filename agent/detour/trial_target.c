/* SPDX-License-Identifier: MIT */
/* The functions that tests of detours divert, and how each is to be diverted. */
#include "agent/detour/trial.h"

__asm__(".text\n"
	".globl trial_victim\n"
	".type trial_victim, @function\n"
	".balign 16\n"
	"trial_victim:\n\t.cfi_startproc\n\tmov %rdi, %rax\n\tadd $1, %rax\n\tret\n\t.cfi_endproc\n"
	".size trial_victim, . - trial_victim\n");

__asm__(".text\n"
	".globl trial_short\n"
	".type trial_short, @function\n"
	".balign 16\n"
	"trial_short:\n\t"
	".cfi_startproc\n\t"
	"mov %rdi, %rax\n\tlea 1(%rax), %rax\n\tret\n\t"
	".cfi_endproc\n"
	".size trial_short, . - trial_short\n"
	".skip 10, 0xcc\n"
	".globl trial_calls, trial_tail, trial_float, trial_long\n"
	".type trial_long, @function\n"
	".balign 16\n"
	"trial_long:\n\t"
	".cfi_startproc\n\t"
	"mov %rdi, %rcx\n\trep lodsb\n\tmov %rsi, %rax\n\tret\n\t"
	".cfi_endproc\n"
	".size trial_long, . - trial_long\n"
	".type trial_calls, @function\n"
	".type trial_tail, @function\n"
	".type trial_float, @function\n"
	".balign 16\n"
	"trial_calls:\n\t"
	".cfi_startproc\n\t"
	"push %rbx\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_offset rbx, -16\n\t"
	"mov %rdi, %rbx\n\t"
	"xor %eax, %eax\n\t"
	"call *%rsi\n\t"
	"add %rbx, %rax\n\t"
	"pop %rbx\n\t"
	".cfi_adjust_cfa_offset -8\n\t"
	"ret\n\t"
	".cfi_endproc\n"
	".size trial_calls, . - trial_calls\n"
	".balign 16\n"
	"trial_tail:\n\t"
	".cfi_startproc\n\t"
	"mov %rdi, %rax\n\tlea 1(%rdi), %rdi\n\tjmp trial_victim\n\t"
	".cfi_endproc\n"
	".size trial_tail, . - trial_tail\n"
	".balign 16\n"
	"trial_float:\n\t"
	".cfi_startproc\n\t"
	"addsd %xmm0, %xmm0\n\tnop\n\tret\n\t"
	".cfi_endproc\n"
	".size trial_float, . - trial_float\n");

static const uint8_t victim_steps[] = { 3, 4 }, tail_steps[] = { 3, 4 },
		     calls_steps[] = { 1, 3, 2 }, long_steps[] = { 3, 2 }, short_steps[] = { 3 },
		     float_steps[] = { 4, 1 };

const struct trial_wish trial_victim_wish = {
	.function = (void (*)(void))trial_victim,
	.span = 7,
	.steps = victim_steps,
	.step_count = 2,
	.argument = 1,
	.name = "victim",
};
const struct trial_wish trial_tail_wish = {
	.function = (void (*)(void))trial_tail,
	.span = 7,
	.steps = tail_steps,
	.step_count = 2,
	.argument = 1,
	.name = "tail",
};
const struct trial_wish trial_calls_wish = {
	.function = (void (*)(void))trial_calls,
	.span = 6,
	.steps = calls_steps,
	.step_count = 3,
	.argument = 1,
	.name = "calls",
};
const struct trial_wish trial_long_wish = {
	.function = (void (*)(void))trial_long,
	.span = 5,
	.steps = long_steps,
	.step_count = 2,
	.argument = 1,
	.name = "long",
};
const struct trial_wish trial_short_wish = {
	.function = (void (*)(void))trial_short,
	.span = 3,
	.steps = short_steps,
	.step_count = 1,
	.argument = 1,
	.relay = TRIAL_SHORT_RELAY,
	.name = "short",
};
const struct trial_wish trial_float_wish = {
	.function = (void (*)(void))trial_float,
	.span = 5,
	.steps = float_steps,
	.step_count = 2,
	.flags = DETOUR_RETURN_FLOAT,
	.name = "float",
};

__asm__(".text\n"
	".globl trial_tight, trial_tight_behind, trial_narrow\n"
	".balign 16\n"
	"trial_tight:\n\t"
	"nop\n"
	"trial_tight_behind:\n\t"
	"lea -0x40(%rdi), %rax\n\tadd $0x41, %rax\n\tret\n\t"
	".balign 16\n"
	"trial_narrow:\n\t"
	"mov %rdi, %rax\n\tadd $1, %rax\n\tret\n\t");

const struct trial_wish trial_tight_wish = {
	.function = (void (*)(void))trial_tight,
	.span = 1,
	.steps = (const uint8_t[]){ 1 },
	.step_count = 1,
	.argument = 1,
	.pun = 4,
	.name = "tight",
};
const struct trial_wish trial_behind_wish = {
	.function = (void (*)(void))trial_tight_behind,
	.span = 8,
	.steps = (const uint8_t[]){ 4, 4 },
	.step_count = 2,
	.argument = 1,
	.name = "behind",
};
const struct trial_wish trial_narrow_wish = {
	.function = (void (*)(void))trial_narrow,
	.span = TRIAL_NARROW_SPAN,
	.steps = (const uint8_t[]){ 3 },
	.step_count = 1,
	.argument = 1,
	.pun = 4,
	.name = "narrow",
};
