/* SPDX-License-Identifier: MIT */
/* loop, loope, loopne, jrcxz and jecxz, taken and not, and a jump to itself. */
#include "program.inc"

	expect	plain*5 equal*3 after_equal unequal*4 after_unequal not_zero zero
	expect	not_zero_32 zero_32 short_count*3 itself*4 backwards*7 done
_start:
	mov	$5, %ecx
plain:
	loop	plain
	mov	$10, %ecx
equal:					/* ends for its flag */
	cmp	$8, %ecx
	setne	%al
	cmp	$1, %al
	loope	equal
after_equal:
	mov	$4, %ecx
unequal:				/* ends for its count */
	cmp	$9, %ecx
	loopne	unequal
after_unequal:
	mov	$1, %ecx
	jrcxz	never_zero
not_zero:
	xor	%ecx, %ecx
	jrcxz	zero
never_zero:
	nop
zero:
	movabs	$0x100000001, %rcx
	jecxz	never_zero_32
not_zero_32:
	movabs	$0x100000000, %rcx
	jecxz	zero_32
never_zero_32:
	nop
zero_32:
	movabs	$0xf00000003, %rcx
short_count:				/* counts in ecx */
	addr32 loop short_count
	mov	$4, %ecx
itself:
	loop	itself
	mov	$7, %ecx
backwards:
	sub	$1, %ecx
	{disp32} jnz	backwards
done:
	quit
