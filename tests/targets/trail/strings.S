/* SPDX-License-Identifier: MIT */
/*
 * String instructions: no, one, many rounds; ended by count or flag; and rep before other
 * instructions.
 */
#include "program.inc"

	expect	none one many scanned compared backwards wide branched crossing done
_start:
	lea	from(%rip), %rsi
	lea	to(%rip), %rdi
	xor	%ecx, %ecx
	rep movsb
none:
	mov	$1, %ecx
	rep movsb
one:
	mov	$300, %ecx
	rep movsb
	mov	$7, %ecx
	rep lodsb
many:
	lea	from(%rip), %rdi
	mov	$'c', %al
	mov	$100, %ecx
	repne scasb
	jne	never_wrong
scanned:
	lea	from(%rip), %rsi
	lea	other(%rip), %rdi
	mov	$100, %ecx
	repe cmpsb
	je	never_wrong
compared:
	std
	lea	to + 64(%rip), %rdi
	mov	$8, %ecx
	rep stosq
	cld
backwards:
	movsb
	movsq
	cmpsl
	stosw
	lodsl
wide:
	mov	$3, %ecx
	rep nop				/* pause */
	rep bsf	%ecx, %eax		/* tzcnt */
	mov	$2, %ebx
1:	lea	to(%rip), %rdi
	mov	$5, %ecx
	rep stosb
	dec	%ebx
	jnz	1b
branched:
	lea	to(%rip), %rdi		/* by address of 32 bits */
	mov	$5, %ecx
	addr32 rep stosb
crossing:
	lea	to(%rip), %rdi
	xor	%eax, %eax
	mov	$1200, %ecx		/* more than a page */
	rep stosl
	jmp	done
never_wrong:
	quit	1
done:
	quit

	.data
from:	.ascii	"abcdefghijklmnopqrstuvwxyz"
	.skip	400
other:	.ascii	"abcdefgHijk"
	.skip	100
	.bss
	.balign	4096
to:	.skip	8192
