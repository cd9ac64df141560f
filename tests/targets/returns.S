/* SPDX-License-Identifier: MIT */
/*
 * Functions that return elsewhere than to who called them, with flags that count. Often enough to
 * be worth every trick. Exit status 7; or which of them went wrong.
 */
	.text
	.globl	_start
_start:
	mov	$3000000, %ebx
again:
	mov	$1, %edi
	/* its return address is gone when it returns, to `popped_back` */
	call	popped
	jno	wrong
	mov	$2, %edi
	call	moved			/* its return address is 4 further on */
	xor	%eax, %eax
	jmp	wrong
	jno	wrong
	mov	$3, %edi
	mov	%rsp, %r12
	call	switched
	xor	%eax, %eax
	jmp	wrong
switched_back:
	mov	%r12, %rsp
	jno	wrong
	mov	$4, %edi
	mov	%rsp, %r12
	call	restored
	xor	%eax, %eax
	jmp	wrong
restored_back:
	mov	%r12, %rsp
	jno	wrong
	dec	%ebx
	jnz	again
	mov	$7, %edi
wrong:
	mov	$231, %eax
	syscall

popped:
	call	1f
1:	pop	%rax
	mov	$0x7fffffff, %eax
	add	$1, %eax		/* overflows */
	ret
moved:
	addq	$4, (%rsp)
	mov	$0x7fffffff, %eax
	add	$1, %eax
	ret
switched:
	mov	$other_stack, %esp
	mov	$0x7fffffff, %eax
	add	$1, %eax
	ret
restored:
	sub	$64, %rsp
	push	$restored_back
	push	$0xa02
	popfq
	ret

	.data
	.balign	8
	.skip	256
other_stack:
	.quad	switched_back
	.section .note.GNU-stack, "", @progbits
