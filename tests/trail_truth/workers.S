/* SPDX-License-Identifier: MIT */
/*
 * Three threads beside the first one, which turn and make a system call now and then; the first
 * sleeps until they have ended.
 */
#include "tests/targets/make_thread.S"

#define SYS_nanosleep 35
#define SYS_getpid 39
#define SYS_exit 60
#define WORKERS 3
#define TURNS 700

	.text
	.globl	_start
	.type	_start, @function
_start:
	mov	$WORKERS, %r12d
	lea	stacks(%rip), %r13
begin:
	add	$4096, %r13
	mov	%r13, %rsi
	make_thread
	jz	work
	dec	%r12d
	jnz	begin
wait:
	lea	pause(%rip), %rdi
	xor	%esi, %esi
	mov	$SYS_nanosleep, %eax
	syscall
	cmpl	$WORKERS, ended(%rip)
	jne	wait
	xor	%edi, %edi
	mov	$SYS_exit, %eax
	syscall
	.size	_start, . - _start

	.type	work, @function
work:
	mov	$TURNS, %ebx
again:
	call	turn
	dec	%ebx
	jnz	again
	lock incl ended(%rip)
	xor	%edi, %edi
	mov	$SYS_exit, %eax
	syscall
	.size	work, . - work

	.type	turn, @function
turn:
	test	$63, %bl
	jnz	1f
	mov	$SYS_getpid, %eax
	syscall
1:	ret
	.size	turn, . - turn

	.data
	.balign	8
pause:	.quad	0, 20000000
ended:	.long	0
	.bss
	.balign	16
stacks:	.skip	4096 * WORKERS
	.section .note.GNU-stack, "", @progbits
