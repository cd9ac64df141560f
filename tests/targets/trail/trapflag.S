/* SPDX-License-Identifier: MIT */
/* A program that steps itself: it sets the trap flag, and its handler counts. */
#include "program.inc"

	expect	(handler restorer)*7 seen done
	oracle	unwalked
	action	on_trap, handler
_start:
	catch	SIGTRAP, on_trap
	xor	%ebp, %ebp
	pushf
	pushf
	orl	$0x100, (%rsp)
	popf				/* from here on a trap after each instruction */
	nop
	jmp	1f
	nop
1:	call	1f
1:	pop	%rax
	pushf				/* and it is seen */
	pop	%rbx
	popf				/* up to this one, which still traps */
	cmp	$7, %ebp
	jne	never_wrong
	test	$0x100, %ebx
	jz	never_wrong
seen:
	pushf
	pop	%rbx
	test	$0x100, %ebx
	jz	done
never_wrong:
	quit	1
handler:
	mov	40 + 80(%rdx), %rbp
	inc	%ebp
	mov	%rbp, 40 + 80(%rdx)
	ret
done:
	quit
	returns
