/* SPDX-License-Identifier: MIT */
/*
 * For assembler: the general registers as a thread's block has them (engine_thread.h). gs is the
 * block's.
 */
#ifndef ENGINE_GPR_S
#define ENGINE_GPR_S

#include "inside/engine/engine_thread.h"

#define GPR(number) %gs:(THREAD_REGS + 8 * (number))

/* All but rsp. */
	.macro load_registers
	mov	GPR(0), %rax
	mov	GPR(1), %rcx
	mov	GPR(2), %rdx
	mov	GPR(3), %rbx
	mov	GPR(5), %rbp
	mov	GPR(6), %rsi
	mov	GPR(7), %rdi
	mov	GPR(8), %r8
	mov	GPR(9), %r9
	mov	GPR(10), %r10
	mov	GPR(11), %r11
	mov	GPR(12), %r12
	mov	GPR(13), %r13
	mov	GPR(14), %r14
	mov	GPR(15), %r15
	.endm

#endif
