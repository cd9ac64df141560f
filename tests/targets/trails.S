/* SPDX-License-Identifier: MIT */
/*
 * A program without a library, for trails that are long or continue in another program: trails
 * MODE. Exit status 7.
 */
#include "make_thread.S"

#define SYS_read 0
#define SYS_pause 34
#define SYS_fork 57
#define SYS_execve 59
#define SYS_wait4 61
#define SYS_exit 60
#define SYS_exit_group 231
#define TURNS 7000
#define CROWD 30

	.text
	.globl _start, spin, turn, called
_start:
	mov	16(%rsp), %rsi
	movzbl	(%rsi), %eax
	cmp	$'e', %eax
	je	spin
	cmp	$'t', %eax
	je	turns
	cmp	$'x', %eax
	je	execs
	cmp	$'f', %eax
	je	forks
	cmp	$'s', %eax
	je	crashes
	cmp	$'m', %eax
	je	threads
	cmp	$'w', %eax
	je	crowd
way_out:
	mov	$7, %edi
	mov	$SYS_exit_group, %eax
	syscall

spin:					/* until it is killed */
	jmp	spin

turns:
	mov	$TURNS, %ebx
turn:
	call	called
	dec	%ebx
	jnz	turn
	jmp	way_out
called:
	ret

execs:					/* itself, with no mode that there is */
	lea	self(%rip), %rdi
	lea	arguments(%rip), %rsi
	xor	%edx, %edx
	mov	$SYS_execve, %eax
	syscall
	jmp	way_out

forks:					/* a child, and waits for it */
	mov	$SYS_fork, %eax
	syscall
	test	%eax, %eax
	jz	way_out
	mov	%eax, %edi
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	mov	$SYS_wait4, %eax
	syscall
	jmp	way_out

/* one more, which reads a byte, and then executes itself or ends */
threads:
	lea	stack_top(%rip), %rsi
	make_thread
	jz	thread
pauses:
	mov	$SYS_pause, %eax
	syscall
	jmp	pauses
crowd:					/* more of them, that wait as well */
	mov	$CROWD, %ebx
more:
	lea	stack_top(%rip), %rsi
	make_thread
	jz	pauses
	dec	%ebx
	jnz	more
	jmp	pauses
thread:
	xor	%edi, %edi
	lea	byte(%rip), %rsi
	mov	$1, %edx
	mov	$SYS_read, %eax
	syscall
	cmpb	$'x', byte(%rip)
	je	execs
	mov	$3, %edi
	mov	$SYS_exit, %eax
	syscall

crashes:
	call	crash
	jmp	way_out
crash:
	xor	%eax, %eax
	.globl	fault
fault:
	mov	(%rax), %eax
	ret

	.data
self:
	.asciz	"/proc/self/exe"
none:
	.asciz	"-"
	.balign	8
arguments:
	.quad	self, none, 0
byte:
	.quad	0
	.skip	4096
stack_top:
	.quad	0
	.section .note.GNU-stack, "", @progbits
