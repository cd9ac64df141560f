/* SPDX-License-Identifier: MIT */
/*
 * Functions of few instructions in every form that a detour has to move: the tests replace each
 * point of each. %rdi and %rsi are buffers, %rdx is 0 to 7, all else is anything; nothing is called
 * but these.
 */
#include "target/code/testing/fixture.inc"

	.text

begin entry_branchprotected
	endbr64
	push	%rbx
	.cfi_adjust_cfa_offset 8
	mov	%rdi, %rbx
	add	%rsi, %rbx
	mov	%rbx, %rax
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
end entry_branchprotected

begin entry_pushes
	endbr64
	push	%r15
	.cfi_adjust_cfa_offset 8
	push	%rax
	.cfi_adjust_cfa_offset 8
	push	%rbx
	.cfi_adjust_cfa_offset 8
	mov	8(%rsp), %rbx
	add	%rbx, %rdi
	sub	16(%rsp), %rdi
	xor	24(%rsp), %rdi
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	pop	%rax
	.cfi_adjust_cfa_offset -8
	pop	%r15
	.cfi_adjust_cfa_offset -8
	ret
end entry_pushes

begin entry_frame
	push	%rbp
	.cfi_adjust_cfa_offset 8
	mov	%rsp, %rbp
	push	%r12
	.cfi_adjust_cfa_offset 8
	xor	%eax, %eax
	sub	$40, %rsp
	.cfi_adjust_cfa_offset 40
	mov	%rdi, -48(%rbp)
	mov	%rsi, %r12
	movl	$7, (%rsp)
	movzbl	%dl, %r10d
	movups	%xmm1, 16(%rsp)
	lea	5(%rax,%rdx), %rcx
	add	%r12, %rcx
	xor	-48(%rbp), %rcx
	add	(%rsp), %eax
	movups	16(%rsp), %xmm2
	add	%rcx, %rax
	add	$40, %rsp
	.cfi_adjust_cfa_offset -40
	pop	%r12
	.cfi_adjust_cfa_offset -8
	pop	%rbp
	.cfi_adjust_cfa_offset -8
	ret
end entry_frame

begin entry_compares
	mov	%rdx, %r11
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	mov	%rdi, 8(%rsp)
	test	%r11, %r11
	mov	%rsi, %r10
	jz	1f
	xor	8(%rsp), %r10
1:	mov	%r10, %rax
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
end entry_compares

begin filler_patchable
	nop
	nop
	nop
	nop
	nop
	lea	(%rdi,%rdx), %rax
	ret
end filler_patchable

begin filler_wide
	nopl	8(%rax,%rax)
	mov	%rdx, %rax
	ret
end filler_wide

begin relative_load
	mov	word_a(%rip), %rax
	add	%rdx, %rax
	mov	%rax, word_b(%rip)
	movl	$0x12345678, word_b+8(%rip)
	addq	$5, word_b(%rip)
	movb	$7, word_b+12(%rip)
	lea	word_a(%rip), %rcx
	movdqu	word_a(%rip), %xmm2
	pshufd	$0x1b, word_a(%rip), %xmm4
	cmpl	$3, word_a(%rip)
	ret
end relative_load

begin branch_forward
	test	%rdx, %rdx
	jz	1f
	inc	%rax
	cmp	$4, %rdx
	ja	1f
	dec	%rbx
	dec	%rbx
	inc	%rbx
	dec	%rbx
1:	lea	3(%rax,%rdx), %rax
	ret
end branch_forward

begin branch_backward
	mov	%rdx, %rcx
	xor	%eax, %eax
1:	add	%rcx, %rax
	sub	$1, %rcx
	jns	1b
	ret
end branch_backward

begin branch_counted
	lea	1(%rdx), %rcx
	xor	%eax, %eax
	jmp	2f
1:	add	%rcx, %rax
	nop
2:	loop	1b
	jrcxz	3f
	dec	%rax
3:	lea	2(%rdx), %ecx
4:	inc	%rax
	cmp	%edx, %ecx
	loopne	4b
	jecxz	5f
	inc	%rax
5:	ret
end branch_counted

begin flags_carry
	add	%rsi, %rdi
	mov	%rdx, %rcx
	mov	%rax, %r8
	adc	%rcx, %r8
	mov	%r8, %rax
	seto	%bl
	setc	%cl
	lahf
	ret
end flags_carry

begin flags_long
	cmp	%r9, %r8
	lea	1(%rax), %rax
	mov	%rax, %rbx
	lea	1(%rbx), %rbx
	not	%rcx
	bswap	%r10
	cmovg	%r11, %rax
	sbb	%r12, %r12
	setp	%r13b
	sets	%r14b
	ret
end flags_long

begin flags_shift
	test	%rax, %rax
	shl	%cl, %rax
	mov	%rax, %rbx
	rcl	$1, %r8
	mov	%r8, %r9
	rcr	%cl, %r10
	mov	%r10, %r11
	setc	%al
	ret
end flags_shift

begin red_zone
	mov	%rdi, -8(%rsp)
	mov	%rsi, -16(%rsp)
	mov	%r8, -120(%rsp)
	mov	%r9, -128(%rsp)
	xor	%eax, %eax
	add	-8(%rsp), %rax
	xor	-16(%rsp), %rax
	add	-120(%rsp), %rax
	xor	-128(%rsp), %rax
	ret
end red_zone

begin stack_use
	push	%rbp
	.cfi_adjust_cfa_offset 8
	mov	%rsp, %rbp
	sub	$0x20, %rsp
	.cfi_adjust_cfa_offset 0x20
	mov	%rdi, 8(%rsp)
	mov	%rdx, (%rsp)
	push	%rsp
	pop	%rcx
	sub	%rsp, %rcx
	pushq	(%rsp)
	popq	16(%rsp)
	mov	16(%rsp), %rax
	pushfq
	popq	%r8
	leave
	.cfi_adjust_cfa_offset -0x28
	ret
end stack_use

begin calls
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	branch_backward
	mov	%rax, %r8
	call	*word_call(%rip)
	add	%rax, %r8
	lea	red_zone(%rip), %rax
	call	*%rax
	mov	%rax, %rcx
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
end calls

begin calls_first
	push	%rbx
	.cfi_adjust_cfa_offset 8
	call	flags_carry
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
end calls_first

begin calls_table
	push	%r15
	.cfi_adjust_cfa_offset 8
	lea	word_call(%rip), %r15
	xor	%ecx, %ecx
	call	*(%r15,%rcx,8)
	pop	%r15
	.cfi_adjust_cfa_offset -8
	ret
end calls_table

begin tail_call
	inc	%rdx
	and	$7, %edx
	jmp	branch_backward
end tail_call

begin tail_indirect
	mov	%rdx, %rcx
	jmp	*word_call(%rip)
end tail_indirect

begin vectors
	movaps	%xmm0, %xmm8
	addps	%xmm1, %xmm8
	movq	%rdi, %xmm3
	paddq	%xmm3, %xmm9
	movaps	%xmm15, %xmm14
	pxor	%xmm5, %xmm14
	comisd	%xmm1, %xmm2
	cmovb	%rdx, %rax
	ret
end vectors

begin strings
	mov	%rdx, %rcx
	rep movsb
	mov	%edx, %ecx
	mov	$0x5a, %al
	rep stosb
	xor	%ecx, %ecx
	repe cmpsb
	setc	%al
	lock incl word_b(%rip)
	xchg	%rax, word_b(%rip)
	ret
end strings

begin sweep_switched
	movsbl	%dl, %eax
	lea	table(%rip), %rcx
	movslq	(%rcx,%rax,4), %rax
	add	%rcx, %rax
	jmp	*%rax
.Lcase_0:
	inc	%rdx
.Lcase_1:
	inc	%rdx
.Lcase_2:
	nop
	inc	%r8
	mov	%r8, %rax
	ret
.Lcase_3:
	dec	%r8
	mov	%r8, %rax
	ret
end sweep_switched

begin high_bytes
	mov	%dh, %ah
	xchg	%bh, %bl
	add	%ch, %al
	movzbl	%ah, %ebp
	ret
end high_bytes

begin short_padded
	ret
end short_padded

begin loop_close
	lea	1(%rdx), %rcx
1:	inc	%rax
	add	%rcx, %rax
	dec	%rcx
	jnz	1b
	ret
	.p2align 4
end loop_close

begin wide_registers
	movabs	$0x1122334455667788, %r12
	add	%r12, %r13
	imul	$0x1000, %r13, %r14
	bt	$3, %r14
	adc	$0, %r15
	popcnt	%r15, %rbp
	ret
end wide_registers

	.section .rodata
	.p2align 2
table:
	.long	.Lcase_0 - table
	.long	.Lcase_1 - table
	.long	.Lcase_2 - table
	.long	.Lcase_3 - table
	.long	.Lcase_2 - table
	.long	.Lcase_1 - table
	.long	.Lcase_0 - table
	.long	.Lcase_3 - table

	.data
	.p2align 4
word_a:
	.quad	0x0123456789abcdef, 0xfedcba9876543210
	.globl	word_b
	.type	word_b, @object
	.size	word_b, 16
word_b:
	.quad	0, 0
word_call:
	.quad	branch_backward

	.section .note.GNU-stack,"",@progbits
