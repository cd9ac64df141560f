/* SPDX-License-Identifier: MIT */
	.globl	_start
	.type	_start, @function
_start:	and	$-16, %rsp
	call	main
	xor	%edi, %edi
	mov	$60, %eax
	syscall
	.size	_start, . - _start
	.section .note.GNU-stack, "", @progbits
