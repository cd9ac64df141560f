/* SPDX-License-Identifier: MIT */
/*
 * Jumps out of deep calls, and out of a handler that never returns; and stacks that are switched.
 */
#include "program.inc"

	expect	set deep*5 set set_again handler out turn_a turn_b turn_a turn_b turn_a turn_b finished
	action	on_fault, handler, SA_NODEFER
_start:
	catch	SIGSEGV, on_fault
	mov	$5, %ebp
	lea	buffer(%rip), %rdi
	call	set_jump
set:
	test	%eax, %eax
	jnz	1f
	call	deep
never_a:
	nop
1:
set_again:
	lea	out_buffer(%rip), %rdi
	call	set_jump
	test	%eax, %eax
	jnz	out
	xor	%eax, %eax
faulting:
	mov	(%rax), %al
never_b:
	nop
handler:
	lea	out_buffer(%rip), %rdi
	jmp	long_jump
deep:
	dec	%ebp
	jnz	1f
	lea	buffer(%rip), %rdi
	call	long_jump
never_c:
	nop
1:	call	deep
	ret
out:
	mov	$3, %ebp		/* two that take turns */
	lea	other_stack_end(%rip), %rax
	movq	$turn_b, -8(%rax)
	sub	$8, %rax
	mov	%rax, other(%rip)
turn_a:
	call	switch_stacks
	dec	%ebp
	jnz	turn_a
	jmp	finished
turn_b:
	call	switch_stacks
	jmp	turn_b
switch_stacks:
	xchg	%rsp, other(%rip)
	ret
set_jump:
	mov	(%rsp), %rax
	mov	%rax, (%rdi)
	lea	8(%rsp), %rax
	mov	%rax, 8(%rdi)
	xor	%eax, %eax
	ret
long_jump:
	mov	$1, %eax
	mov	8(%rdi), %rsp
	jmp	*(%rdi)
finished:
	quit
	returns

	.data
	.balign	8
buffer:	.quad	0, 0
out_buffer:
	.quad	0, 0
other:	.quad	0
	.bss
	.balign	16
	.skip	4096
other_stack_end:
	.skip	64
