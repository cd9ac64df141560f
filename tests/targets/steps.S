/* SPDX-License-Identifier: MIT */
/*
 * A program without a library, whose every instruction is known: steps MODE. Exit status 7, if
 * nothing else is said.
 */
#define SYS_rt_sigaction 13
#define SYS_rt_sigreturn 15
#define SYS_getpid 39
#define SYS_exit_group 231

	.text
	.globl _start, way_out, loop_head, callee, after_call, string
	.globl handler, restorer, faults, recursive
_start:
	mov	16(%rsp), %rsi
	movzbl	(%rsi), %eax
	cmp	$'l', %eax
	je	loops
	cmp	$'c', %eax
	je	calls
	cmp	$'r', %eax
	je	strings
	cmp	$'s', %eax
	je	signals
	cmp	$'f', %eax
	je	faults
	cmp	$'p', %eax
	je	pushes
way_out:
	mov	$7, %edi
leave:
	mov	$SYS_exit_group, %eax
	syscall

loops:					/* 1,000 turns */
	mov	$1000, %ecx
loop_head:
	dec	%ecx
	jnz	loop_head
	jmp	way_out

calls:					/* 5 deep, and through a register */
	mov	$5, %ecx
	call	recursive
after_call:
	lea	callee(%rip), %rax
	call	*%rax
	jmp	way_out
recursive:
	dec	%ecx
	jz	callee
	call	recursive
callee:
	ret

strings:				/* 100 bytes, one instruction */
	mov	$100, %ecx
	lea	memory(%rip), %rdi
string:
	rep stosb
	jmp	way_out

signals:				/* ud2's handler continues behind it */
	mov	$SYS_rt_sigaction, %eax
	mov	$4, %edi
	lea	action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	syscall
faulting:
	ud2
	jmp	way_out
handler:
	addq	$2, 40 + 128(%rdx)	/* uc_mcontext's rip */
	ret
restorer:
	mov	$SYS_rt_sigreturn, %eax
	syscall

faults:
	xor	%eax, %eax
fault:
	mov	(%rax), %eax
	jmp	way_out

pushes:					/* 1 where the flags show that it is stepped */
	pushf
	pop	%rdi
	mov	$SYS_getpid, %eax
	syscall
	or	%r11, %rdi
	shr	$8, %edi
	and	$1, %edi
	jmp	leave

	.globl	fault, faulting
	.data
	.balign	8
action:
	.quad	handler, 0x04000004, restorer, 0	/* SA_RESTORER | SA_SIGINFO */
memory:
	.skip	128
	.section .note.GNU-stack, "", @progbits
