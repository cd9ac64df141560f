/* SPDX-License-Identifier: MIT */
/*
 * The code that a borrowed thread executes; arch/remote_syscall.h. Its data are behind it and are
 * read only.
 *
 * Flags are loaded by popping them from the data, at a time when all signals are blocked: no
 * handler can run on that stack. `mov` keeps flags, and so does `syscall` on its return.
 */
	.section .rodata.remote, "a"
	.globl remote_code, remote_code_restore, remote_code_data, remote_code_end
	.hidden remote_code, remote_code_restore, remote_code_data, remote_code_end
	.balign 16
remote_code:
	syscall
remote_code_restore:
	lea	flags(%rip), %rsp
	popfq
	mov	saved_rsp(%rip), %rsp
	mov	$14, %eax		/* rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8) */
	mov	$2, %edi
	lea	mask(%rip), %rsi
	mov	$0, %edx
	mov	$8, %r10d
	syscall
	mov	saved_rax(%rip), %rax
	mov	saved_rbx(%rip), %rbx
	mov	saved_rcx(%rip), %rcx
	mov	saved_rdx(%rip), %rdx
	mov	saved_rsi(%rip), %rsi
	mov	saved_rdi(%rip), %rdi
	mov	saved_rbp(%rip), %rbp
	mov	saved_r8(%rip), %r8
	mov	saved_r9(%rip), %r9
	mov	saved_r10(%rip), %r10
	mov	saved_r11(%rip), %r11
	mov	saved_r12(%rip), %r12
	mov	saved_r13(%rip), %r13
	mov	saved_r14(%rip), %r14
	mov	saved_r15(%rip), %r15
	jmp	*saved_rip(%rip)

	.balign 8
remote_code_data:		/* struct restored, remote_syscall.c */
mask:		.quad 0
flags:		.quad 0
saved_rsp:	.quad 0
saved_rax:	.quad 0
saved_rbx:	.quad 0
saved_rcx:	.quad 0
saved_rdx:	.quad 0
saved_rsi:	.quad 0
saved_rdi:	.quad 0
saved_rbp:	.quad 0
saved_r8:	.quad 0
saved_r9:	.quad 0
saved_r10:	.quad 0
saved_r11:	.quad 0
saved_r12:	.quad 0
saved_r13:	.quad 0
saved_r14:	.quad 0
saved_r15:	.quad 0
saved_rip:	.quad 0
remote_code_end:
	.section .note.GNU-stack, "", @progbits
