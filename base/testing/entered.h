/* SPDX-License-Identifier: MIT */
/*
 * A function called from an armed marker, without an agent: for tests of what unwinds the stack.
 * The marker is a portable one, so that no code has to change. One source of a program includes it.
 */
#ifndef BASE_TESTING_ENTERED_H
#define BASE_TESTING_ENTERED_H

#define WAYMARK_PORTABLE 1
#include <waymark/marker.h>

#include "abi/site.h"

extern struct wm_record __start_waymark_markers[], __stop_waymark_markers[];
extern const char entered_stub[];

static void (*entered_function)(void);

static __attribute__((used)) void entered(void)
{
	entered_function();
}

/* As arch/x86_64/enter.S describes the way back; the site expects all registers to be kept. */
__asm__(".pushsection .text\n"
	"entered_stub:\n\t"
	".cfi_startproc\n\t"
	".cfi_def_cfa rsp, 152\n\t"
	".cfi_offset rip, -152\n\t"
	"pushq %rbp\n\t"
	".cfi_adjust_cfa_offset 8\n\t"
	".cfi_rel_offset rbp, 0\n\t"
	"movq %rsp, %rbp\n\t"
	".cfi_def_cfa_register rbp\n\t"
	"pushq %rax\n\tpushq %rcx\n\tpushq %rdx\n\tpushq %rsi\n\tpushq %rdi\n\t"
	"pushq %r8\n\tpushq %r9\n\tpushq %r10\n\tpushq %r11\n\t"
	"andq $-16, %rsp\n\t"
	"call entered\n\t"
	"leaq -72(%rbp), %rsp\n\t"
	"popq %r11\n\tpopq %r10\n\tpopq %r9\n\tpopq %r8\n\t"
	"popq %rdi\n\tpopq %rsi\n\tpopq %rdx\n\tpopq %rcx\n\tpopq %rax\n\t"
	"popq %rbp\n\t"
	".cfi_def_cfa rsp, 152\n\t"
	"ret\n\t"
	".cfi_endproc\n"
	".popsection");

static __attribute__((noinline)) long entered_marked(int number, long other)
{
	WAYMARK(entered, marked, number, other);
	return number + other;
}

/*
 * Call `function` as an agent is called: from an armed marker's entry in a function of this file.
 */
static inline void entered_by_marker(void (*function)(void))
{
	struct wm_record *record = __start_waymark_markers;

	entered_function = function;
	for (; record < __stop_waymark_markers; record++) {
		record->enter = (uintptr_t)entered_stub;
		record->armed = 1;
	}
	entered_marked(1, 2);
}

#endif
