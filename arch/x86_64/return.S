/* SPDX-License-Identifier: MIT */
/*
 * The return target of diverted functions (inside/detour/return.h). Unit u of the stubs is 16
 * bytes; its cell holds the return address that it replaces. The first of each page gives unwinders
 * its distance from a stub to its cell:
 *
 *	page + 0	cells - stubs, as seen from here
 *	unit + 0	call return_go		the way in; pushes the stub's address
 *	unit + 5	pushq $16 * unit; jmp return_common
 *
 * A processor foretells where a ret goes from the calls it has seen. So the function's entry comes
 * by here: with the return address taken off the stack the unit's call puts the stub's in its
 * place, and the processor expects it. return_common's own ret goes where the caller's call is
 * still remembered.
 *
 * One FDE for all of them. To an unwinder a stub is a frame of no size that was called from where
 * the cell says: rip is saved at (rip & -16) + *(rip & -4096). The CFA is one more than rsp, which
 * is as it was: libgcc takes two frames with the same CFA for one, and its assertion fails in a C++
 * throw.
 */
#include "arch/x86_64/flags.S"

#define PAGES 128 /* RETURN_UNITS / 256 */

	.bss
	.balign 4096
	.globl	return_cells
	.hidden	return_cells
	.type	return_cells, @object
return_cells:
	.zero	PAGES * 4096
	.size	return_cells, . - return_cells

	.section waymark_return_text, "ax", @progbits
	.macro	stub
	.byte	0xe8			/* call return_go */
	.long	return_go - . - 4
	.byte	0x68			/* pushq $16 * unit */
	.long	unit * 16
	.byte	0xe9			/* jmp return_common */
	.long	return_common - . - 4
	.byte	0xcc
	.set	unit, unit + 1
	.endm

	.globl	return_stubs, return_stubs_end
	.hidden	return_stubs, return_stubs_end
	.type	waymark_return, @function
	.balign 4096
waymark_return:
return_stubs:
	.cfi_startproc simple
	/*
	 * DW_CFA_def_cfa_expression: rsp + 1, and 8 more behind the push: breg7 1; breg16 0; lit15;
	 * and; lit10; ge; lit3; shl; plus
	 */
	.cfi_escape 0x0f, 11, 0x77, 1, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22
	/* DW_CFA_val_expression of rsp: the same without the 1 */
	.cfi_escape 0x16, 7, 11, 0x77, 0, 0x80, 0, 0x3f, 0x1a, 0x3a, 0x2a, 0x33, 0x24, 0x22
	/*
	 * DW_CFA_expression of rip: breg16 0; const1s -16; and; breg16 0; const4s -4096; and;
	 * deref; plus
	 */
	.cfi_escape 0x10, 16, 15, 0x80, 0, 0x09, 0xf0, 0x1a, 0x80, 0, \
		0x0d, 0x00, 0xf0, 0xff, 0xff, 0x1a, 0x06, 0x22
	.set	unit, 0
	.rept	PAGES
	.quad	return_cells + unit * 16 - .
	.quad	0
	.set	unit, unit + 1
	.rept	255
	stub
	.endr
	.endr
return_stubs_end:
	.cfi_endproc
	.size	waymark_return, . - waymark_return

/*
 * From a unit's call: the stack is as at the function's entry, with the stub's address for its
 * return address, and below it the address at which the trampoline continues (abi/detour.h).
 */
	.type	return_go, @function
	.p2align 4
return_go:
	.cfi_startproc
	notrack jmp *-8(%rsp)
	.cfi_endproc
	.size	return_go, . - return_go

/* The same for a call that is not diverted: its return address is below the stack pointer. */
	.globl	return_go_plain
	.hidden	return_go_plain
	.type	return_go_plain, @function
	.p2align 4
return_go_plain:
	.cfi_startproc
	.cfi_def_cfa_offset 0
	leaq	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	notrack jmp *-8(%rsp)
	.cfi_endproc
	.size	return_go_plain, . - return_go_plain

/*
 * In place of a function that a handler replaces (abi/detour.h: DETOUR_REPLACE), as it would be
 * called: it returns to the stub, with the result. Every other register is kept: a compiler that
 * has seen the function may rely on those that it leaves alone (gcc's -fipa-ra).
 */
	.globl	return_replaced
	.hidden	return_replaced
	.type	return_replaced, @function
	.p2align 4
return_replaced:
	.cfi_startproc
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	movq	8(%rsp), %rdi
	call	return_result
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	return_replaced, . - return_replaced

	.globl	return_replaced_void
	.hidden	return_replaced_void
	.type	return_replaced_void, @function
	.p2align 4
return_replaced_void:
	.cfi_startproc
	ret
	.cfi_endproc
	.size	return_replaced_void, . - return_replaced_void

	.globl	return_replaced_float
	.hidden	return_replaced_float
	.type	return_replaced_float, @function
	.p2align 4
return_replaced_float:
	.cfi_startproc
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	movq	16(%rsp), %rdi
	leaq	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	call	return_result
	leaq	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	movq	%rax, %xmm0
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	return_replaced_float, . - return_replaced_float

/*
 * (%rsp) is sixteen times the unit's number, in place of the return address that it replaces.
 * Everything is kept, flags too: hand-written code returns things in them.
 */
	.type	return_common, @function
	.p2align 4
return_common:
	.cfi_startproc
	.cfi_undefined rip
	pushq	%rax
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	movl	16(%rsp), %eax
	leaq	return_cells(%rip), %rcx
	movq	(%rcx, %rax), %rcx
	movq	%rcx, 16(%rsp)
	.cfi_offset rip, -8
	movl	%eax, %ecx
	pushfq
	.cfi_adjust_cfa_offset 8
	flags_clear
	leaq	-8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	movq	%xmm0, (%rsp)
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	call	return_hit
	leaq	16(%rsp), %rsp
	.cfi_adjust_cfa_offset -16
	flags_pop
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rax
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size	return_common, . - return_common

	.section .note.GNU-stack,"",@progbits
