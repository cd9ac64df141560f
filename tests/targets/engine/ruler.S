/* SPDX-License-Identifier: MIT */
/*
 * Descriptor 3 is a file of a page. For i = 1, 2, 3 ...: i is stored there, and a loop runs so
 * often as i has 0 bits at its end. So each part of what ran says where it is, and the file says
 * how far it came, whenever it is killed.
 */
	.text
	.globl	_start
_start:	mov	$9, %eax		/* mmap, shared, to read and write */
	xor	%edi, %edi
	mov	$4096, %esi
	mov	$3, %edx
	mov	$1, %r10d
	mov	$3, %r8d
	xor	%r9d, %r9d
	syscall
	cmp	$-4096, %rax
	ja	failed
	mov	%rax, %r12
	xor	%ebx, %ebx
	.globl	next
next:	inc	%rbx
	mov	%rbx, (%r12)
	lea	room(%rip), %rdi	/* not too many of them */
	mov	$16384, %ecx
	rep stosb
	bsf	%rbx, %rcx
	inc	%ecx
	.globl	again
again:	dec	%ecx
	jnz	again
	jmp	next
failed:	mov	$60, %eax
	mov	$1, %edi
	syscall

	.bss
room:	.skip	16384
	.section .note.GNU-stack, "", @progbits
