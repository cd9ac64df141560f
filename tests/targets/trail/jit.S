/* SPDX-License-Identifier: MIT */
/*
 * Code copied to memory of its own; other code at the same place; that memory unmapped, and mapped
 * again.
 */
#include "program.inc"

	.macro	copy from
	lea	\from(%rip), %rsi
	mov	%rbx, %rdi
	mov	$16, %ecx
	rep movsb
	.endm

	expect	mapped one_returned two_returned remapped two_again one_again executable done
_start:
	call	map
mapped:
	copy	one
	call	*%rbx
one_returned:
	cmp	$1, %eax
	jne	never_wrong
	copy	two
	call	*%rbx
two_returned:
	cmp	$2, %eax
	jne	never_wrong
	mov	%rbx, %rdi
	mov	$4096, %esi
	call_system __NR_munmap
	mov	%rbx, %r15
	call	map
	cmp	%rbx, %r15
	jne	never_wrong
remapped:
	copy	two
	call	*%rbx
two_again:
	copy	one
	call	*%rbx
one_again:
	mov	%rbx, %rdi
	mov	$4096, %esi
	mov	$4, %edx		/* only to be executed */
	call_system __NR_mprotect
	call	*%rbx
executable:
	cmp	$1, %eax
	je	done
never_wrong:
	quit	1
one:	mov	$1, %eax
	ret
	.skip	16, 0xcc
two:	xor	%eax, %eax
	inc	%eax
	inc	%eax
	nop
	ret
	.skip	16, 0xcc
map:
	mov	$0x7000000, %edi
	mov	$4096, %esi
	mov	$7, %edx
	mov	$0x100022, %r10d	/* MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE */
	mov	$-1, %r8
	xor	%r9d, %r9d
	call_system __NR_mmap
	mov	%rax, %rbx
	ret
done:
	quit
