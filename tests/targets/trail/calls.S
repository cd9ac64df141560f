/* SPDX-License-Identifier: MIT */
/*
 * Calls: direct, indirect, to the next instruction, of oneself and each other, and those that end
 * in jumps.
 */
#include "program.inc"

	expect	callee after_direct callee after_register callee after_memory callee after_rip
	expect	next next_far popping after_popping argument_callee after_argument
	expect	recursive*6 recursed*6 after_recursive
	expect	(even odd)*3 even after_mutual tail_first tail_second tail_third after_tail
	expect	pushed_return far_back skipping landed done
_start:
	call	callee
after_direct:
	lea	callee(%rip), %r11
	call	*%r11
after_register:
	lea	place(%rip), %rax
	call	*(%rax)
after_memory:
	call	*place(%rip)
after_rip:
	call	next			/* where am I */
next:
	pop	%rax
	call	1f
1:	add	$next_far - 1b, (%rsp)
	ret
never_a:
	nop
next_far:
	call	popping
after_popping:
	push	$1
	push	$2
	call	argument_callee
after_argument:
	mov	$5, %edi
	call	recursive
after_recursive:
	mov	$6, %edi
	call	even
after_mutual:
	call	tail_first
after_tail:
	push	$far_back
	jmp	pushed_return
far_back:
	call	skipping
never_b:
	nop
landed:
	jmp	done

callee:
	ret
popping:				/* returns by a jump */
	pop	%rdx
	jmp	*%rdx
argument_callee:
	ret	$16
recursive:
	dec	%edi
	js	1f
	call	recursive
recursed:
1:	ret
even:
	test	%edi, %edi
	jz	1f
	dec	%edi
	call	odd
1:	ret
odd:
	dec	%edi
	call	even
	ret
tail_first:
	jmp	tail_second
tail_second:
	lea	tail_third(%rip), %rax
	jmp	*%rax
tail_third:
	ret
pushed_return:
	ret
skipping:				/* its caller's next instruction is left out */
	incq	(%rsp)
	ret
done:
	quit

	.data
	.balign	8
place:	.quad	callee
