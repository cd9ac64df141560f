/* SPDX-License-Identifier: MIT */
/*
 * Instructions that stop or fault, each with a handler that continues behind it: int3, ud2, hlt,
 * privileged ones, ...
 */
#include "program.inc"

	.macro	stop bytes:vararg
	movl	$9f - 8f, length(%rip)
8:	\bytes
9:
	.endm

	/* int3, int $3 have run when their handler comes */
	.macro	trap bytes:vararg
	movl	$0, length(%rip)
	\bytes
	.endm

	expect	(handler restorer)*18 done
	action	on_stop, handler, SA_NODEFER
_start:
	.irp	signal, SIGILL, SIGTRAP, SIGFPE, SIGSEGV, SIGBUS
	catch	\signal, on_stop
	.endr
	trap	int3
	trap	.byte 0xcd, 3
	stop	ud2
	stop	ud1 %eax, %eax
	stop	.byte 0x0f, 0xff, 0xc0
	stop	hlt
	stop	int $0x70
	stop	cli
	stop	sti
	stop	inb $0x80, %al
	stop	outb %al, %dx
	stop	mov %cr0, %rax
	stop	invlpg (%rax)
	xor	%ecx, %ecx
	stop	div %ecx
	stop	idivb %cl
	movabs	$0x8000000000000000, %rax
	xor	%edx, %edx
	stop	mov (%rax), %ebx	/* no address */
	stop	rdmsr
	stop	sysretq
done:
	quit
handler:
	mov	length(%rip), %eax
	add	%rax, UC_RIP(%rdx)
	ret
	returns

	.data
length:	.quad	0
