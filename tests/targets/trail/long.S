/* SPDX-License-Identifier: MIT */
/*
 * Code without a branch that is as long as a block may be, one shorter, one longer, and of
 * instructions of 15 bytes.
 */
#include "program.inc"

	.macro	wide
	.byte	0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0
	.endm

	expect	exact shorter longer twice widest around*3 done
_start:
	jmp	exact
exact:					/* the jump is the last of 64 */
	.rept	63
	nop
	.endr
	jmp	shorter
shorter:
	.rept	62
	nop
	.endr
	jmp	longer
longer:					/* and here alone in a block */
	.rept	64
	nop
	.endr
	jmp	twice
twice:
	.rept	200
	xchg	%rax, %rax
	.endr
	jmp	widest
widest:
	.rept	130
	wide
	.endr
	mov	$3, %ecx
around:
	.rept	64
	lea	(%rax), %rax
	.endr
	dec	%ecx
	jnz	around
done:
	quit
