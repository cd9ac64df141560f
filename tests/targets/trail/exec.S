/* SPDX-License-Identifier: MIT */
/* A program that executes itself, then once more from a second thread, whose id changes by that. */
#include "program.inc"

#define CLONE_FLAGS 0x50f00 /* VM FS FILES SIGHAND THREAD SYSVSEM */

	oracle	unwalked several
_start:
	mov	(%rsp), %rax
	mov	8(%rsp), %r15		/* itself */
	lea	(%rsp, %rax, 8), %rbx
	cmp	$1, %eax
	je	first
	cmp	$2, %eax
	je	second
done:
	quit
first:
	lea	word(%rip), %rax
	mov	%rax, arguments + 8(%rip)
execute:
	mov	%r15, arguments(%rip)
	mov	%r15, %rdi
	lea	arguments(%rip), %rsi
	xor	%edx, %edx
	call_system __NR_execve
	quit	1
second:
	mov	$CLONE_FLAGS, %edi
	lea	stack_end(%rip), %rsi
	xor	%edx, %edx
	xor	%r10d, %r10d
	call_system __NR_clone
	test	%eax, %eax
	jnz	waits
	lea	word(%rip), %rax
	mov	%rax, arguments + 8(%rip)
	mov	%rax, arguments + 16(%rip)
	jmp	execute
waits:
	call_system __NR_pause
	quit	1

	.data
	.balign	8
arguments:
	.quad	0, 0, 0, 0, 0
word:	.asciz	"again"
	.bss
	.balign	16
	.skip	4096
stack_end:
	.skip	64
