/* SPDX-License-Identifier: MIT */
/*
 * The program's flags around our code. Compiled code relies on a clear DF and faults under AC, so
 * both are cleared. Programs rarely set them, so popfq is left to that case: sahf, with an addition
 * that sets the overflow flag, takes a fifth of its time.
 */
#define FLAGS_DIRECTION 0x400
#define FLAGS_ALIGNMENT 0x40000
#define FLAGS_CLEARED (FLAGS_DIRECTION | FLAGS_ALIGNMENT)

/* Clear those that are set in the flags at (%rsp). */
	.macro flags_clear
	testl	$FLAGS_CLEARED, (%rsp)
	jz	.Lclear\@
	pushfq
	.cfi_adjust_cfa_offset 8
	andl	$~FLAGS_CLEARED, (%rsp)
	popfq
	.cfi_adjust_cfa_offset -8
.Lclear\@:
	.endm

/* Take the flags from the stack. %rax changes. */
	.macro flags_pop
	movq	(%rsp), %rax
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	testl	$FLAGS_CLEARED, %eax
	jz	.Lkept\@
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
.Lkept\@:
	xchgb	%al, %ah
	andb	$8, %al
	addb	$120, %al		/* the overflow flag */
	sahf
	.endm
