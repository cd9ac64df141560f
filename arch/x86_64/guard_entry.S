/* SPDX-License-Identifier: MIT */
/* arch/guard_entry.h says what this does. */
	.text

#define CALL_PRCTL 157
#define CALL_SECCOMP 317
#define SET_SECCOMP 22

/*
 * The C library's own instructions, plus one test. A system call that changes the stack pointer, as
 * clone(2) and vfork(2) do, finds only the program's own data on the stack.
 */
	.globl	guard_call
	.hidden	guard_call
	.type	guard_call, @function
	.p2align 4
guard_call:
	.cfi_startproc
	endbr64
	testl	%eax, %eax
	jnz	2f

	/* syscall(number, ...) */
	cmpl	$CALL_SECCOMP, %edi
	je	4f
	cmpl	$CALL_PRCTL, %edi
	jne	1f
	cmpl	$SET_SECCOMP, %esi
	je	4f
1:	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	8(%rsp), %r9
	syscall
	cmpq	$-4095, %rax
	jae	5f
	ret

	/* a function of that number: prctl(option, ...) */
2:	cmpl	$CALL_PRCTL, %eax
	jne	3f
	cmpl	$SET_SECCOMP, %edi
	jne	3f
	movq	%r8, %r9
	movq	%rcx, %r8
	movq	%rdx, %rcx
	movq	%rsi, %rdx
	movq	%rdi, %rsi
	movl	%eax, %edi
	jmp	4f
3:	movq	%rcx, %r10
	syscall
	cmpq	$-4095, %rax
	jae	5f
	ret

4:	jmp	guard_filter
5:	movq	%rax, %rdi
	jmp	guard_failed
	.cfi_endproc
	.size	guard_call, . - guard_call

	.section .note.GNU-stack,"",@progbits
