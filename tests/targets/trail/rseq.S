/* SPDX-License-Identifier: MIT */
/*
 * A critical section of rseq(2), out of which every stop puts the thread: a gap, and the trail
 * resumes at the abort handler.
 */
#include "program.inc"

#define SIGNATURE 0x53053053

	oracle	unwalked native
	expect	section commit? aborted? done
_start:
	lea	area(%rip), %rdi
	mov	$32, %esi
	xor	%edx, %edx
	mov	$SIGNATURE, %r10d
	call_system __NR_rseq
	test	%eax, %eax
	jnz	never_wrong
section:
	lea	critical(%rip), %rax
	mov	%rax, area + 8(%rip)
begin:
	nop
	nop
	nop
	jmp	1f
1:	nop
commit:
	jmp	done
	.long	0x53053053
aborted:
	jmp	done
never_wrong:
	quit	1
done:
	quit

	.data
	.balign	32
area:	.skip	64
	.balign	32
critical:
	.long	0, 0
	.quad	begin, commit - begin, aborted
