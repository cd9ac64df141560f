/* SPDX-License-Identifier: MIT */
/*
 * Code that changes: an operand, a jump, what comes next in the same block, and code that is
 * changed back.
 */
#include "program.inc"

	oracle	changes
	expect	counting*4 turning first_way turning second_way turning first_way ahead changed done
_start:
	lea	_start(%rip), %rdi
	and	$-4096, %rdi
	mov	$4096, %esi
	mov	$7, %edx
	call_system __NR_mprotect
	xor	%ebx, %ebx
counting:
	incb	operand + 1(%rip)
operand:
	mov	$0, %al
	add	%al, %bl
	cmp	$4, %al
	jne	counting
	cmp	$10, %bl
	jne	never_wrong
	mov	$3, %ebp
turning:				/* a jump that leads here and there */
	dec	%ebp
	js	ahead
turn:
	jmp	first_way
first_way:
	movb	$second_way - first_way, turn + 1(%rip)
	test	%ebp, %ebp
	jz	ahead
	jmp	turning
second_way:
	movb	$0, turn + 1(%rip)
	jmp	turning
ahead:
	movb	$0x90, change(%rip)	/* the next instruction of this block */
change:					/* nop, or what remains of it */
	.byte	0xcc
changed:
	jmp	done
never_wrong:
	quit	1
done:
	quit
