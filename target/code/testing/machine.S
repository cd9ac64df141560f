/* SPDX-License-Identifier: MIT */
	.set	VECTORS, 192

	.macro	each op
	\op	0, %rax
	\op	1, %rcx
	\op	2, %rdx
	\op	3, %rbx
	\op	5, %rbp
	\op	6, %rsi
	\op	8, %r8
	\op	9, %r9
	\op	10, %r10
	\op	11, %r11
	\op	12, %r12
	\op	13, %r13
	\op	14, %r14
	\op	15, %r15
	.endm

	.macro	load number, reg
	mov	8*\number(%rdi), \reg
	.endm

	.macro	store number, reg
	mov	\reg, 8*\number(%rdi)
	.endm

	.text
	.globl	machine_run, machine_back, machine_enter, machine_enter_return

machine_run:
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rdi, now(%rip)
	mov	%rsi, function(%rip)
	mov	%rsp, stack(%rip)
	mov	$-1, %eax
	mov	$-1, %edx
	xrstor64 VECTORS(%rdi)
	mov	32(%rdi), %rsp
	pushq	128(%rdi)
	popfq
	each	load
	mov	56(%rdi), %rdi
	call	*function(%rip)
machine_back:
	mov	%rdi, kept(%rip)
	mov	now(%rip), %rdi
	each	store
	mov	%rsp, 32(%rdi)
	pushfq
	popq	128(%rdi)
	mov	kept(%rip), %rax
	mov	%rax, 56(%rdi)
	mov	$-1, %eax
	mov	$-1, %edx
	xsave64	VECTORS(%rdi)
	cld
	mov	stack(%rip), %rsp
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret

machine_enter:
	push	%rax
	push	%rcx
	push	%rsi
	push	%rdi
	mov	40(%rsp), %rax
	mov	48(%rsp), %rsi
	mov	(%rax), %rdi
	incq	(%rax)
	and	$63, %edi
	shl	$7, %rdi
	lea	8(%rax,%rdi), %rdi
	mov	$128, %ecx
	rep movsb
	movq	$-1, -8(%rsp)
	movq	$-1, -64(%rsp)
	movq	$-1, -128(%rsp)
	pop	%rdi
	pop	%rsi
	pop	%rcx
	pop	%rax
	pushfq
	xorq	$0x8d5, (%rsp)
	popfq
	ret

machine_enter_return:
	push	16(%rsp)
	push	16(%rsp)
	call	machine_enter
	pushfq
	xorq	$0x8d5, (%rsp)
	popfq
	lea	16(%rsp), %rsp
	push	%rax
	mov	8(%rsp), %rax
	lea	10(%rax), %rax		/* DETOUR_GO_BYTES */
	mov	%rax, 24(%rsp)
	lea	1f(%rip), %rax
	mov	%rax, 16(%rsp)
	pop	%rax
	ret
1:	lea	-8(%rsp), %rsp
	jmp	*-8(%rsp)

	.data
	.p2align 3
now:	.quad	0
function: .quad	0
stack:	.quad	0
kept:	.quad	0

	.section .note.GNU-stack,"",@progbits
