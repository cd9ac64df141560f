/* SPDX-License-Identifier: MIT */
/* String instructions that fault in their middle, whose handler lets them continue. */
#include "program.inc"

	expect	before handler restorer after handler restorer skipped done
	action	on_fault, handler
_start:
	catch	SIGSEGV, on_fault
	xor	%ebp, %ebp
	call	protect
before:
	lea	page - 10(%rip), %rdi
	mov	$20, %ecx
	rep stosb
after:
	test	%ecx, %ecx
	jne	never_wrong
	xor	%ebp, %ebp
	call	protect
	mov	$1, %ebp		/* this time it is given up */
	lea	page - 3(%rip), %rsi
	mov	$6, %ecx
faulting:
	rep lodsb
skipped:
	cmp	$3, %ecx
	jne	never_wrong
	jmp	done
never_wrong:
	quit	1
handler:
	test	%ebp, %ebp
	jnz	1f
	mov	$3, %ebp
	jmp	protect
1:	addq	$skipped - faulting, UC_RIP(%rdx)
	ret
protect:				/* ebp: with what rights */
	lea	page(%rip), %rdi
	mov	$4096, %esi
	mov	%ebp, %edx
	call_system __NR_mprotect
	ret
done:
	quit
	returns

	.bss
	.balign	4096
	.skip	4096
page:	.skip	4096
