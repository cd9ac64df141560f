/* SPDX-License-Identifier: MIT */
/* Ends by a fault in the middle of a block, behind a call. */
#include "program.inc"

	expect	inner
_start:
	call	inner
never_a:
	nop
inner:
	xor	%eax, %eax
	nop
faulting:
	mov	8(%rax), %ebx
never_b:
	nop
	ret
