/* SPDX-License-Identifier: MIT */
/*
 * Page faults at a block's first, middle and last instruction, which is run again: a load, a store,
 * a call, a return, a popf that faults, and a jump to where nothing is, from where the handler
 * comes back elsewhere.
 */
#include "program.inc"

	expect	load handler restorer handler restorer store calling handler restorer callee
	expect	flags handler restorer after_flags jumping handler restorer done
	oracle	unwalked
	action	on_fault, handler, SA_ONSTACK
_start:
	lea	stack(%rip), %rdi
	xor	%esi, %esi
	call_system __NR_sigaltstack
	catch	SIGSEGV, on_fault
	lea	page(%rip), %rbx
	call	close_page
load:
	nop
	mov	8(%rbx), %eax
	nop
	call	close_page
store:
	movl	$5, 8(%rbx)
	cmpl	$5, 8(%rbx)
	jne	never_wrong
	call	close_page
	mov	%rsp, %rbp
calling:
	lea	4096(%rbx), %rsp
	call	callee			/* its push faults */
never_wrong:
	quit	1
callee:
	mov	%rbp, %rsp
	lea	2048(%rbx), %rdi
	movq	$0x246, (%rdi)
	call	close_page
	lea	2048(%rbx), %rsp
flags:
	nop
	/* the kernel takes the flag that steps it for its own here */
	popf
after_flags:
	mov	%rbp, %rsp
	testl	$0x100, seen(%rip)
	jnz	never_wrong
	mov	$16, %eax
jumping:
	jmp	*%rax
handler:
	mov	UC_EFLAGS(%rdx), %eax
	or	%eax, seen(%rip)
	lea	done(%rip), %rax
	cmpq	$16, UC_RIP(%rdx)
	jne	1f
	mov	%rax, UC_RIP(%rdx)
1:	mov	$3, %edx
	jmp	protect
close_page:
	xor	%edx, %edx
protect:
	lea	page(%rip), %rdi
	mov	$4096, %esi
	call_system __NR_mprotect
	ret
done:
	quit
	returns

	.data
	.balign	8
stack:	.quad	handler_stack, 0, 8192
seen:	.quad	0
	.bss
	.balign	4096
page:	.skip	4096
handler_stack:
	.skip	8192
