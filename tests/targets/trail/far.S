/* SPDX-License-Identifier: MIT */
/* Far jumps, calls and returns, and iretq, all within 64-bit code. */
#include "program.inc"

	expect	jumped called called_back far_returned returned_by_iret iretd done
_start:
	mov	%cs, %eax
	mov	%ax, place + 4(%rip)
	mov	%ax, callee_place + 4(%rip)
	ljmp *place(%rip)
never_a:
	nop
jumped:
	lcall *callee_place(%rip)
called_back:
	mov	%cs, %eax
	push	%rax
	push	$far_returned
	lretq
never_b:
	nop
called:
	lret
far_returned:
	mov	%rsp, %rbx
	mov	%ss, %eax
	push	%rax
	push	%rbx
	pushf
	mov	%cs, %eax
	push	%rax
	push	$returned_by_iret
	iretq
never_c:
	nop
returned_by_iret:
	sub	$16, %rsp		/* and one that takes away 16 bytes */
	mov	%cs, %eax
	push	%rax
	push	$iretd
	lretq	$16
never_d:
	nop
iretd:
	cmp	%rbx, %rsp
	jne	never_d
done:
	quit

	.data
	.balign	8
place:	.long	jumped, 0
callee_place:
	.long	called, 0
