/* SPDX-License-Identifier: MIT */
/* arch/trap_frame.h says what these do. */
	.text

/*
 * No unwinding information, and none that ends right before: unwinders and debuggers know a
 * signal's frame by these very bytes where they find none (libgcc's linux-unwind.h, gdb's
 * amd64-linux-tdep.c). gdb looks at the bytes only if there is no symbol, or if it has the C
 * library's name.
 */
	.globl	__restore_rt
	.hidden	__restore_rt
	.type	__restore_rt, @function
	.p2align 4
	nop
__restore_rt:
	movq	$15, %rax
	syscall
	.size	__restore_rt, . - __restore_rt

	.globl	trap_call
	.hidden	trap_call
	.type	trap_call, @function
	.p2align 4
trap_call:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register rbp
	testq	%r8, %r8
	jz	1f
	movq	%r8, %rsp
1:	andq	$-16, %rsp
	movq	%rdi, %r11
	movl	%esi, %edi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	xorl	%eax, %eax
	call	*%r11
	leave
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size	trap_call, . - trap_call

	.section .note.GNU-stack,"",@progbits
