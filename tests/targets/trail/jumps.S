/* SPDX-License-Identifier: MIT */
/* Jumps: short, near, through registers, memory and a table. */
#include "program.inc"

	expect	short near by_register by_extended by_memory by_rip by_index (head (one|two|three)){3}
	expect	by_segment done
_start:
	jmp	short
never_a:
	nop
short:
	{disp32} jmp near
never_b:
	nop
by_register:
	lea	by_extended(%rip), %r12
	jmp	*%r12
never_c:
	nop
near:
	lea	by_register(%rip), %rax
	jmp	*%rax
never_d:
	nop
by_extended:
	lea	places(%rip), %rbx
	jmp	*(%rbx)
never_e:
	nop
by_memory:
	jmp	*places + 8(%rip)
never_f:
	nop
by_rip:
	mov	$2, %eax
	jmp	*places(, %rax, 8)
never_g:
	nop
by_index:
	xor	%ebp, %ebp
head:
	movslq	table(, %rbp, 4), %rax
	add	$table, %rax
	inc	%ebp
	jmp	*%rax
one:
	jmp	head
two:
	jmp	head
three:
	jmp	*%ds:places + 24
never_h:
	nop
by_segment:
	jmp	1f
	.skip	200, 0xcc
1:	jmp	done
done:
	quit

	.data
	.balign	8
places:	.quad	by_memory, by_rip, by_index, by_segment
table:	.long	one - table, two - table, three - table
