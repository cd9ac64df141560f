/* SPDX-License-Identifier: MIT */
/*
 * Three threads that add up a number under a lock, and a first one that waits for their ends; all
 * made by clone(2).
 */
#include "program.inc"

#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define CLONE_FLAGS 0x350f00 /* VM FS FILES SIGHAND THREAD SYSVSEM PARENT_SETTID CHILD_CLEARTID */

	oracle	unwalked
	expect	start*3 waiting+ all_over done
	expect_threads thread (locking locked){5} leaving
_start:
	mov	$3, %ebx
	lea	stacks_end(%rip), %rbp
	lea	tids(%rip), %r12
start:
	mov	$CLONE_FLAGS, %edi
	mov	%rbp, %rsi
	mov	%r12, %rdx
	mov	%r12, %r10
	xor	%r8d, %r8d
	call_system __NR_clone
	test	%eax, %eax
	jz	thread
	js	never_wrong
	sub	$4096, %rbp
	add	$4, %r12
	dec	%ebx
	jnz	start
	lea	tids(%rip), %r12
	mov	$3, %ebx
1:
waiting:
	mov	(%r12), %edx
	test	%edx, %edx
	jz	2f
	mov	%r12, %rdi
	mov	$FUTEX_WAIT, %esi
	xor	%r10d, %r10d
	call_system __NR_futex
	jmp	1b
2:	add	$4, %r12
	dec	%ebx
	jnz	1b
all_over:
	cmpl	$15, number(%rip)
	je	done
never_wrong:
	quit	1
thread:
	mov	$5, %ebx
locking:
	jmp	2f
1:	lea	lock(%rip), %rdi
	mov	$FUTEX_WAIT, %esi
	mov	$1, %edx
	xor	%r10d, %r10d
	call_system __NR_futex
2:	mov	$1, %eax
	xchg	%eax, lock(%rip)
	test	%eax, %eax
	jnz	1b
locked:
	incl	number(%rip)
	movl	$0, lock(%rip)
	lea	lock(%rip), %rdi
	mov	$FUTEX_WAKE, %esi
	mov	$1, %edx
	call_system __NR_futex
	dec	%ebx
	jnz	locking
leaving:
	xor	%edi, %edi
	call_system __NR_exit
done:
	quit

	.bss
	.balign	16
	.skip	4096 * 3
stacks_end:
	.skip	64
tids:	.skip	16
lock:	.skip	8
number:	.skip	8
