/* SPDX-License-Identifier: MIT */
/*
 * A program without a library that takes one branch another way, on request: parts same|other
 * [signals]. 300 turns; in the 201st, `other` goes past `usual`. With a second argument a timer's
 * signals come meanwhile. Its addresses differ in each run.
 */
#define SYS_rt_sigaction 13
#define SYS_rt_sigreturn 15
#define SYS_setitimer 38
#define SYS_getpid 39
#define SYS_exit_group 231

	.macro function name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro over name
	.size	\name, . - \name
	.endm

	.text
	.globl	decides, usual, other
function _start
	mov	16(%rsp), %rsi
	movzbl	(%rsi), %r12d
	cmpq	$3, (%rsp)
	jb	begin
	call	signals
begin:
	mov	$SYS_getpid, %eax	/* another in each run */
	syscall
	xor	%ebx, %ebx
next:
	call	turn
	inc	%ebx
	cmp	$300, %ebx
	jb	next
	xor	%edi, %edi
	mov	$SYS_exit_group, %eax
	syscall
over _start

function turn
	cmp	$200, %ebx
	jne	usual
	cmp	$'o', %r12b
decides:
	je	other
usual:
	add	$2, %rcx
	ret
other:
	sub	$2, %rcx
	jmp	usual
over turn

function signals
	lea	handler(%rip), %rax
	mov	%rax, action(%rip)
	lea	restorer(%rip), %rax
	mov	%rax, action + 16(%rip)
	mov	$SYS_rt_sigaction, %eax
	mov	$14, %edi
	lea	action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
	mov	$SYS_setitimer, %eax
	xor	%edi, %edi
	lea	every(%rip), %rsi
	xor	%edx, %edx
	syscall
	ret
over signals
function handler
	ret
over handler
function restorer
	mov	$SYS_rt_sigreturn, %eax
	syscall
over restorer

	.data
	.balign	8
action:
	.quad	0, 0x04000000, 0, 0	/* SA_RESTORER */
every:
	.quad	0, 10000, 0, 10000	/* 10 ms */
	.section .note.GNU-stack, "", @progbits
