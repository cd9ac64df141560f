/* SPDX-License-Identifier: MIT */
/* See sample_call.h. */
	.text
	.globl	sample_capture
	.type	sample_capture, @function
sample_capture:
	.cfi_startproc
	mov	%rax, sample_call(%rip)
	mov	%rdx, sample_call+8(%rip)
	mov	%rcx, sample_call+16(%rip)
	mov	%rbx, sample_call+24(%rip)
	mov	%rsi, sample_call+32(%rip)
	mov	%rdi, sample_call+40(%rip)
	mov	%rbp, sample_call+48(%rip)
	mov	%rsp, sample_call+56(%rip)
	mov	%r8, sample_call+64(%rip)
	mov	%r9, sample_call+72(%rip)
	mov	%r10, sample_call+80(%rip)
	mov	%r11, sample_call+88(%rip)
	mov	%r12, sample_call+96(%rip)
	mov	%r13, sample_call+104(%rip)
	mov	%r14, sample_call+112(%rip)
	mov	%r15, sample_call+120(%rip)
	movups	%xmm0, sample_call+128(%rip)
	movups	%xmm1, sample_call+144(%rip)
	movups	%xmm2, sample_call+160(%rip)
	movups	%xmm3, sample_call+176(%rip)
	movups	%xmm4, sample_call+192(%rip)
	movups	%xmm5, sample_call+208(%rip)
	movups	%xmm6, sample_call+224(%rip)
	movups	%xmm7, sample_call+240(%rip)
	mov	%rsp, %rsi
	lea	sample_call+256(%rip), %rdi
	mov	$32, %ecx
	rep movsq
	mov	sample_call+16(%rip), %rcx
	mov	sample_call+32(%rip), %rsi
	mov	sample_call+40(%rip), %rdi
	jmp	*sample_target(%rip)
	.cfi_endproc
	.size	sample_capture, .-sample_capture
	.bss
	.globl	sample_call
	.type	sample_call, @object
	.balign	16
sample_call:
	.zero	512
	.size	sample_call, .-sample_call
	.globl	sample_target
	.type	sample_target, @object
sample_target:
	.zero	8
	.size	sample_target, .-sample_target
	.section .note.GNU-stack,"",@progbits
