/* SPDX-License-Identifier: MIT */
/*
 * fork, vfork and wait4: children are left alone, and come to the end that they would have come to.
 */
#include "program.inc"

	oracle	unwalked
	expect	forked waited vforked waited signalled done
	action	on_child, child_handler
_start:
	call_system __NR_fork
	test	%eax, %eax
	jz	never_child
forked:
	mov	%eax, %edi
	call	wait
	cmpl	$7 << 8, status(%rip)
	jne	never_wrong
	mov	%rsp, %rbp
	call_system __NR_vfork
	test	%eax, %eax
	jz	never_vforked_child
vforked:
	mov	%rbp, %rsp
	mov	%eax, %edi
	call	wait
	cmpl	$8 << 8, status(%rip)
	jne	never_wrong
signalled:
	jmp	done
wait:
	lea	status(%rip), %rsi
	xor	%edx, %edx
	xor	%r10d, %r10d
	call_system __NR_wait4
waited:
	ret
child_handler:
	ret
never_child:
	mov	$300, %ecx
1:	loop	1b
	quit	7
never_vforked_child:
	quit	8
never_wrong:
	quit	1
done:
	quit
	returns

	.data
	.balign	8
status:	.quad	0
