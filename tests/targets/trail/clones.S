/* SPDX-License-Identifier: MIT */
/*
 * Processes made by clone(2) that send no SIGCHLD, one with our memory: they are children, and left
 * alone.
 */
#include "program.inc"

#define CLONE_VM 0x100
#define WALL 0x40000000

	oracle	unwalked
	expect	made waited made waited done
_start:
	xor	%edi, %edi
	xor	%esi, %esi
	call	make
	mov	$CLONE_VM, %edi
	lea	stack_end(%rip), %rsi
	movq	$child, -8(%rsi)
	sub	$8, %rsi
	call	make
	cmpl	$7, shared(%rip)
	je	done
never_wrong:
	quit	1
make:
	xor	%edx, %edx
	xor	%r10d, %r10d
	xor	%r8d, %r8d
	call_system __NR_clone
	test	%eax, %eax
	jz	child
	js	never_wrong
made:
	mov	%eax, %edi
	lea	status(%rip), %rsi
	mov	$WALL, %edx
	xor	%r10d, %r10d
	call_system __NR_wait4
waited:
	cmpl	$7 << 8, status(%rip)
	jne	never_wrong
	ret
child:
	mov	$1000, %ecx
1:	loop	1b
	movl	$7, shared(%rip)
	quit	7
done:
	quit

	.bss
	.balign	16
	.skip	4096
stack_end:
	.skip	64
status:	.skip	8
shared:	.skip	8
