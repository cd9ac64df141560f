/* SPDX-License-Identifier: MIT */
/*
 * Moves to ss, behind which no trap comes before one more instruction has run: none, a branch, a
 * system call, a fault.
 */
#include "program.inc"

	oracle	unwalked
	expect	plain after branching branched calling callee called returned repeated twice faulting handler restorer
	expect	pushing pushed done
	action	on_stop, handler
_start:
	catch	SIGILL, on_stop
	mov	%ss, %ebx
plain:
	mov	%ebx, %ss
	nop
after:
	nop
branching:
	mov	%ebx, %ss
	jmp	branched
never_a:
	nop
branched:
	nop
calling:
	mov	%ebx, %ss
	call	callee
called:
	jmp	returned
callee:
	mov	%ebx, %ss
	ret
returned:
	mov	$5, %ecx
	lea	memory(%rip), %rdi
	mov	%ebx, %ss
	rep stosb
repeated:
	mov	%ebx, %ss
	mov	%ebx, %ss
	mov	%ebx, %ss
	nop
twice:
	nop
faulting:
	mov	%ebx, %ss
	ud2
never_b:
	nop
handler:
	lea	pushing(%rip), %rax
	mov	%rax, UC_RIP(%rdx)
	ret
pushing:
	mov	%ebx, %ss
	pushf
pushed:
	pop	%rax
	test	$0x100, %eax
	jz	done
	quit	1
done:
	quit
	returns

	.data
memory:	.skip	16
