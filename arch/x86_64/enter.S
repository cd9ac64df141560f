/* SPDX-License-Identifier: MIT */
/*
 * Where armed sites enter the agent. The site has stepped over the red zone and pushed the payload
 * and the agent's word (abi/site.h); the call pushed the way back:
 *
 *	 (%rsp)  return address
 *	8(%rsp)  agent word
 *	16(%rsp) payload
 *	24(%rsp) the red zone's 128 bytes, then the program's stack pointer at the site
 *
 * The CFI says that the caller's stack pointer is 152 bytes up: to an unwinder the site's own
 * frame looks untouched, whatever register its CFA is computed from.
 */
#include "arch/x86_64/flags.S"

	.text

	.macro	begin name
	.globl	\name
	.hidden	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	.cfi_def_cfa rsp, 152
	.cfi_offset rip, -152
	endbr64
	.endm

	.macro	end name
	.cfi_endproc
	.size	\name, . - \name
	.endm

/* A marker's site: its compiler knows that the arithmetic flags change. */
	.macro	hit_enter name, handler
	begin	\name
	pushfq
	.cfi_adjust_cfa_offset 8
	testl	$FLAGS_CLEARED, (%rsp)
	jnz	1f
	call	\handler
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_adjust_cfa_offset 8
1:	flags_clear
	call	\handler
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	end	\name
	.endm

	hit_enter hit_enter_fixed, hit_fixed
	hit_enter hit_enter_text, hit_text
	hit_enter hit_enter_refs, hit_refs

/* The trampoline keeps the flags itself. */
	begin	hit_enter_detour
	call	hit_detour
	ret
	end	hit_enter_detour

	begin	hit_enter_return
	pushfq
	.cfi_adjust_cfa_offset 8
	flags_clear
	call	return_enter
	movq	%rax, -8(%rsp)
	flags_pop
	movq	-16(%rsp), %rax
	ret
	end	hit_enter_return

/*
 * long vectors_keep(long (*fn)(void *), void *arg, unsigned long area_bytes, unsigned long mask,
 *		     void *area)
 *
 * Call code that may use vector registers from code that the program doesn't know to be a call:
 * everything that XSAVE (Intel SDM vol. 1, 13.7) or, with a mask of 0, FXSAVE covers is kept, in
 * `area` or, where that is NULL, on the stack. The stack is aligned for the callee on the way.
 */
	.globl	vectors_keep
	.hidden	vectors_keep
	.type	vectors_keep, @function
	.p2align 4
vectors_keep:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	pushq	%rbx
	.cfi_offset rbx, -24
	pushq	%rcx
	movq	%rdi, %r10
	movq	%rsi, %rdi
	movq	%r8, %rbx
	testq	%r8, %r8
	jnz	1f
	subq	%rdx, %rsp
	andq	$-64, %rsp
	movq	%rsp, %rbx
1:	andq	$-16, %rsp
	movq	%rcx, %rax
	testq	%rcx, %rcx
	jz	2f
	/* the header's reserved bytes must be zero for XRSTOR (13.4.2) */
	xorl	%esi, %esi
	movq	%rsi, 512(%rbx)
	movq	%rsi, 520(%rbx)
	movq	%rsi, 528(%rbx)
	movq	%rsi, 536(%rbx)
	movq	%rsi, 544(%rbx)
	movq	%rsi, 552(%rbx)
	movq	%rsi, 560(%rbx)
	movq	%rsi, 568(%rbx)
	movq	%rax, %rdx
	shrq	$32, %rdx
	xsave64	(%rbx)
	jmp	3f
2:	fxsave64 (%rbx)
3:	cld
	call	*%r10
	movq	%rax, %rcx
	movq	-16(%rbp), %rax
	testq	%rax, %rax
	jz	4f
	movq	%rax, %rdx
	shrq	$32, %rdx
	xrstor64 (%rbx)
	jmp	5f
4:	fxrstor64 (%rbx)
5:	movq	%rcx, %rax
	movq	-8(%rbp), %rbx
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	vectors_keep, . - vectors_keep

	.section .note.GNU-stack,"",@progbits
