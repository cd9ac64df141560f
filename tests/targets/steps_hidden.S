/* SPDX-License-Identifier: MIT */
/*
 * Instructions that may hide the trap behind them, before one that the tracer has to notice:
 * steps-hidden MODE, as record/trail/step/hidden_test.c says. Exit status 7 if all is well.
 */
#include <asm/unistd.h>

#define SIGTRAP 5
#define SIGKILL 9
#define SIGUSR1 10
#define TRAP_FLAG 0x100
#define SA_RESTORER_SIGINFO 0x04000004
#define SIGNATURE 0x53053053

	.macro	mode letter, to
	cmp	$\letter, %al
	je	\to
	.endm

	.macro	call_system number
	mov	$\number, %eax
	syscall
	.endm

	/* A system call that runs before the tracer stops the thread. */
	.macro	hide_system number
	mov	$\number, %eax
	pause
	syscall
	.endm

	.macro	catch signal
	mov	$\signal, %edi
	lea	action(%rip), %rsi
	xor	%edx, %edx
	mov	$8, %r10d
	call_system __NR_rt_sigaction
	.endm

	.text
	.globl	_start
_start:
	pause				/* shows whether traps are dropped */
	nop
	mov	16(%rsp), %rsi
	movzbl	(%rsi), %eax
	mode	'f', flags
	mode	'o', own_flag
	mode	'i', raised
	mode	'r', returning
	mode	'l', itself
	mode	'm', shadowed
	mode	'q', restartable
	mode	'F', far
	mode	'g', number
	mode	'c', forking
	mode	'e', executing
	mode	'x', exiting
	mode	'k', killing
	mode	's', signalling
	mode	'z', endless
way_out:
	mov	$7, %edi
leave:
	call_system __NR_exit_group
wrong:
	mov	$1, %edi
	jmp	leave

flags:					/* pushf and popf, also with mov to ss between */
	mov	%ss, %edi
	pause
	pushf
	pop	%rax
	pause
	mov	%edi, %ss
	pushf
	pop	%rcx
	or	%ecx, %eax
	mov	%edi, %ss
	pause
	pushf
	pop	%rcx
	or	%ecx, %eax
	pushf
	pause
	popf
	pushf
	pop	%rcx
	or	%ecx, %eax
	test	$TRAP_FLAG, %eax
	jnz	wrong
	jmp	way_out

own_flag:				/* popf sets the program's own trap flag: three traps */
	catch	SIGTRAP
	xor	%ebp, %ebp
	pushf
	pop	%rcx
	mov	%ecx, %eax
	or	$TRAP_FLAG, %eax
	push	%rcx
	push	%rax
	pause
	popf
	nop
	nop
	popf
	cmp	$3, %ebp
	jne	wrong
	jmp	way_out

raised:					/* int1: a trap of the program's own */
	catch	SIGTRAP
	xor	%ebp, %ebp
	pause
trapping:
	int1
	cmp	$1, %ebp
	jne	wrong
	jmp	way_out

handler:
	pause
	incl	40 + 80(%rdx)		/* uc_mcontext's rbp */
	cmpq	$trapping, 40 + 128(%rdx) /* its rip: KVM on AMD leaves it at int1 */
	jne	1f
	incq	40 + 128(%rdx)
1:	ret
restorer:
	call_system __NR_rt_sigreturn
restorer_hidden:
	hide_system __NR_rt_sigreturn

returning:				/* a return to itself, which the stack pointer shows */
	lea	way_out(%rip), %rcx
	push	%rcx
	lea	1f(%rip), %rcx
	push	%rcx
	push	%rcx
	pause
1:	ret

shadowed:
	mov	%ss, %edi
	mov	$__NR_getpid, %eax
	mov	%edi, %ss
	syscall
	jmp	way_out

itself:					/* a branch to itself: two runs end at the same place */
	mov	$5, %ecx
	pause
1:	loop	1b
	jmp	way_out

/* a critical section, whose abort handler leads to the same place */
restartable:
	lea	area(%rip), %rdi
	mov	$32, %esi
	xor	%edx, %edx
	mov	$SIGNATURE, %r10d
	call_system __NR_rseq
	test	%eax, %eax
	jnz	wrong
	lea	section(%rip), %rcx
	mov	%rcx, area + 8(%rip)
begin:
	pause
	jmp	way_out
commit:
	.long	SIGNATURE
aborted:
	jmp	way_out

endless:				/* until a signal ends it */
	pause
	inc	%eax
	jmp	endless

far:					/* a far return */
	mov	%cs, %eax
	push	%rax
	lea	way_out(%rip), %rcx
	push	%rcx
	pause
	lretq

number:					/* its result, and r11 without the trap flag */
	hide_system __NR_getpid
	mov	%eax, %edi
	test	$TRAP_FLAG, %r11d
	jnz	wrong
	call_system __NR_getpid
	cmp	%eax, %edi
	je	way_out
	jmp	wrong

forking:
	hide_system __NR_fork
	test	%eax, %eax
	jz	way_out
	mov	%eax, %edi
	mov	%eax, %ebx
	xor	%esi, %esi
	xor	%edx, %edx
	xor	%r10d, %r10d
	call_system __NR_wait4
	cmp	%eax, %ebx
	je	way_out
	jmp	wrong

executing:
	lea	path(%rip), %rdi
	lea	arguments(%rip), %rsi
	xor	%edx, %edx
	hide_system __NR_execve
	jmp	wrong

exiting:
	mov	$7, %edi
	hide_system __NR_exit_group

killing:
	call_system __NR_getpid
	mov	%eax, %edi
	mov	$SIGKILL, %esi
	hide_system __NR_kill

/* a signal right behind it, and the way back from the handler is another */
signalling:
	lea	restorer_hidden(%rip), %rcx
	mov	%rcx, action + 16(%rip)
	catch	SIGUSR1
	xor	%ebp, %ebp
	call_system __NR_getpid
	mov	%eax, %edi
	mov	$SIGUSR1, %esi
	hide_system __NR_kill
	cmp	$1, %ebp
	je	way_out
	jmp	wrong

	.data
	.balign	32
area:	.skip	64
section:
	.long	0, 0
	.quad	begin, commit - begin, aborted
action:	.quad	handler, SA_RESTORER_SIGINFO, restorer, 0
arguments:
	.quad	path, word, 0
path:	.asciz	"/proc/self/exe"
word:	.asciz	"w"
	.section .note.GNU-stack, "", @progbits
