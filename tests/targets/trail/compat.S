/* SPDX-License-Identifier: MIT */
/*
 * 32-bit code in a 64-bit program, twice, whose bytes mean something else in 64 bits, and a system
 * call from there. A trail has a gap for it.
 */
#include "program.inc"

	expect	there back there back done
	oracle	unwalked native int80
_start:
	mov	$2, %ebp
	mov	(%rsp), %ebx		/* argc */
	mov	$stack_end, %esp
there:
	movl	$code32, 4(%rsp)
	movl	$0x23, 8(%rsp)
	push	$0x23
	push	$code32
	lretq
never_a:
	nop
	.code32
code32:
	inc	%eax			/* a REX prefix in 64 bits */
	dec	%eax
never_decoded:
	mov	$3, %ecx
1:	dec	%ecx
	jnz	1b
	cmp	$1, %ebx
	jne	2f
	mov	$20, %eax		/* getpid */
	int	$0x80
2:	ljmp	$0x33, $back
	.code64
back:
	dec	%ebp
	jnz	there
done:
	quit

	.bss
	.balign	16
	.skip	4096
stack_end:
	.skip	64
