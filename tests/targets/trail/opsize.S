/* SPDX-License-Identifier: MIT */
/*
 * Branches with an operand size of 16 bits: processors of AMD obey it, with shorter displacements
 * and addresses; those of Intel don't. The handler continues where those without it would have
 * gone.
 */
#include "program.inc"

	expect	not_taken (handler restorer|) short_taken (handler restorer|) done
	action	on_fault, handler, SA_ONSTACK
_start:
	lea	stack(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_sigaltstack
	catch	SIGSEGV, on_fault
	xor	%eax, %eax
	.byte	0x66, 0x0f, 0x85, 0x00, 0x00	/* jne: not taken; */
	.byte	0x90, 0x90			/* of its displacement, or instructions */
not_taken:
	movq	$short_taken, next(%rip)
	.byte	0x66, 0xeb, short_taken - . - 1	/* jmp */
	ud2
short_taken:
	movq	$done, next(%rip)
	xor	%eax, %eax
	.byte	0x66, 0x74, done - . - 1	/* je */
	ud2
handler:
	cmpq	$0x10000, UC_RIP(%rdx)
	jae	never_wrong
	mov	next(%rip), %rax
	mov	%rax, UC_RIP(%rdx)
	ret
never_wrong:
	quit	1
done:
	quit
	returns

	.data
	.balign	8
next:	.quad	0
stack:	.quad	handler_stack, 0, 8192
	.bss
	.balign	16
handler_stack:
	.skip	8192
