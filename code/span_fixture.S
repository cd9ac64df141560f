/* SPDX-License-Identifier: MIT */
/* Functions for which a detour has, or has not, a way; span_test.c knows their bytes. Never run. */
#include "code/fixture.inc"

	.text

begin one_wide
	mov	$0x12345678, %eax	/* +0, 5 */
	ret				/* +5 */
end one_wide

begin several
	push	%rbx			/* +0, 1 */
	.cfi_adjust_cfa_offset 8
	mov	%rdi, %rbx		/* +1, 3 */
	mov	%rbx, %rax		/* +4, 3 */
	pop	%rbx			/* +7 */
	.cfi_adjust_cfa_offset -8
	ret				/* +8 */
end several

begin protected
	endbr64				/* +0, 4 */
	mov	$1, %eax		/* +4, 5 */
	ret
end protected

/* As -fpatchable-function-entry makes it, with its list of what to patch. */
begin patchable
	endbr64
1:	.pushsection __patchable_function_entries, "aw", @progbits
	.balign	8
	.quad	1b
	.popsection
	nop
	nop
	nop
	nop
	nop
	ret
end patchable

/* What sys/sdt.h leaves: a nop, behind which a loop begins. */
begin probed_loop
	xor	%eax, %eax		/* +0, 2 */
	mov	%rdi, %rcx		/* +2, 3 */
	nop				/* +5 */
1:	add	%rcx, %rax		/* +6, 3 */
	dec	%rcx			/* +9, 3 */
	jnz	1b			/* +12, 2 */
	ret				/* +14 */
end probed_loop

begin higher_wall
	hlt
	.skip	140, 0xf4
end higher_wall

/* Likewise, with nothing before the nop that could take the jump. */
begin probed_call
	sub	$8, %rsp		/* +0, 4 */
	.cfi_adjust_cfa_offset 8
1:	call	one_wide		/* +4, 5 */
	nop				/* +9 */
2:	dec	%ecx			/* +10, 2 */
	jz	1b			/* +12, 2 */
	js	2b			/* +14, 2 */
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	ret
	ud2
	ud2
end probed_call

/* No room, and no filler near by that could take a relay. */
begin too_short
	ret
	.cfi_endproc
	.size	too_short, . - too_short
begin near_by, 1
	ud2
	.skip	140, 0xf4
end near_by

begin calling
	call	*(%rdi)			/* +0, 2 */
	ret
	.skip	140, 0xf4
end calling

begin calling_aligned
	call	*%rax			/* +0, 2 */
	nopl	8(%rax,%rax)		/* +2, 5: run when the call returns */
	ret
	.skip	140, 0xf4
end calling_aligned

begin calling_wide
	call	one_wide		/* +0, 5 */
	ret
end calling_wide

begin into_padding
	xor	%eax, %eax
	ret
end into_padding

begin wall
	hlt
	.skip	140, 0xf4
end wall

begin with_syscall
	mov	%edi, %eax		/* +0, 2 */
	syscall				/* +2, 2 */
	ret
	.skip	140, 0xf4
end with_syscall

begin crossed
	xor	%eax, %eax		/* +0, 2 */
1:	inc	%eax			/* +2, 2 */
	cmp	%edi, %eax		/* +4, 2 */
	jl	1b			/* +6, 2 */
	ret
	.skip	140, 0xf4
end crossed

begin relayed
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.balign	16, 0x90		/* +9, 7 */
end relayed

	.skip	140, 0xf4

/* Its only filler is jumped into: at +11. */
begin filler_target
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.byte	0x90, 0x90		/* +9 */
3:	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	jmp	1b			/* +16 */
	.skip	140, 0xf4
	jmp	3b
	.skip	140, 0xf4
end filler_target

/* Its only filler is run when the call returns, if it does. */
begin filler_run
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	call	*%rax			/* +8, 2 */
	.byte	0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90
	ud2
	.skip	140, 0xf4
end filler_run

/* Its only filler is one long instruction. */
begin filler_long
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.byte	0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 /* +9, 11 */
	.skip	140, 0xf4
end filler_long

/* A table that comes from elsewhere. */
begin computed
	push	%rbx			/* +0, 1 */
	.cfi_adjust_cfa_offset 8
	mov	%edi, %ebx		/* +1, 2 */
	mov	%ebx, %eax		/* +3, 2 */
	movslq	(%rsi,%rax,4), %rax	/* +5, 4 */
	add	%rsi, %rax
	jmp	*%rax
	.skip	140, 0xf4
end computed

/* Gone to by another function, at distances that its table has as bytes. */
begin computed_into
	push	%rbx			/* +0, 1 */
	.cfi_adjust_cfa_offset 8
	mov	%edi, %ebx		/* +1, 2 */
	mov	%ebx, %eax		/* +3, 2 */
	add	$1, %eax		/* +5, 3 */
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
	.skip	140, 0xf4
end computed_into

begin computes_into
	leaq	computed_into(%rip), %rdx
	leaq	computed_bytes(%rip), %r8
	andl	$3, %esi
	movzbl	(%r8,%rsi), %ecx
	addq	%rcx, %rdx
	movl	%edi, %eax
	jmp	*%rdx
end computes_into
	.pushsection .rodata
computed_bytes:
	.byte	1, 3, 5, 5
	.popsection

begin signal_return
	.cfi_signal_frame
	mov	$15, %eax
	syscall
end signal_return

begin backward
	mov	%rsi, %rcx		/* +0, 3 */
	std				/* +3, 1 */
	rep stosb			/* +4, 2 */
	cld				/* +6, 1 */
	mov	$0x12345678, %eax	/* +7, 5 */
	ret
end backward

begin unreadable
	mov	$0x12345678, %eax	/* +0, 5 */
	jmp	1f			/* +5, 2 */
	.byte	0x06, 0x06, 0x06	/* +7 */
1:	mov	$0x12345678, %eax	/* +10, 5 */
	ret
end unreadable

begin odd_frame
	.cfi_def_cfa_offset 24
	mov	$0x12345678, %eax
	ret
end odd_frame

	.globl	frameless
	.type	frameless, @function
frameless:
	mov	$0x12345678, %eax
	ret
	.size	frameless, . - frameless

begin _setjmp
	mov	$0x12345678, %eax
	ret
end _setjmp

begin abort
	mov	$0x12345678, %eax
	ud2
end abort

begin with_marker
	push	%rbx			/* +0, 1 */
	.cfi_adjust_cfa_offset 8
	push	%rbx			/* +1, 1 */
	.cfi_adjust_cfa_offset 8
.Lsite:	cmp	$0x11, %eax		/* +2, 5, as an armed marker has it */
	.byte	0x90, 0x90
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
.Lcold:	inc	%eax
	ret
	.skip	140, 0xf4
end with_marker

begin with_restartable
	xor	%eax, %eax		/* +0, 2 */
.Lstart: mov	%fs:(%rdi), %rax	/* +2, 4 */
	inc	%rax			/* +6, 3 */
	mov	%rax, %fs:(%rdi)	/* +9, 4 */
.Lcommit: ret				/* +13 */
.Labort: ret
end with_restartable

	.skip	140, 0xf4

/* Their filler is a byte too far behind for a short jump, as far as one leads, and likewise before them. */
begin filler_beyond
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.skip	120, 0xf4
	ret				/* +129 */
	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	.skip	140, 0xf4
end filler_beyond

begin filler_reached
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.skip	119, 0xf4
	ret				/* +128 */
	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	.skip	140, 0xf4
	ret
	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	.skip	122, 0xf4
end filler_reached

begin filler_too_early, 1
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.skip	140, 0xf4
	ret
	.byte	0x90, 0x90, 0x90, 0x90, 0x90
	.skip	121, 0xf4
end filler_too_early

begin filler_early, 1
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.skip	140, 0xf4
end filler_early

/* Whoever jumps into its only filler, at +10, runs through what is left of that. */
begin filler_entered
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	ret				/* +8 */
	.byte	0x90			/* +9 */
3:	.byte	0x90, 0x90, 0x90, 0x90, 0x90, 0x90
	jmp	1b			/* +16 */
	.skip	140, 0xf4
	jmp	3b
	.skip	140, 0xf4
end filler_entered

/* Filler that is run, more of it than anybody looks at. */
begin filler_sled
	mov	%rdi, %rax		/* +0, 3 */
1:	dec	%rax			/* +3, 3 */
	jnz	1b
	mov	%rax, %rcx		/* +8, 3 */
	.skip	24, 0x90
	ret
	.skip	140, 0xf4
end filler_sled

/* More than any span has. */
begin wide_line
	.rept	6
	movabs	$0x1122334455667788, %rax	/* 10 */
	.endr
	ret
end wide_line

begin protected_loop
	endbr64				/* +0, 4 */
1:	mov	$1, %eax		/* +4, 5 */
	dec	%rdi
	jnz	1b
	ret
end protected_loop

/* What is compared at +0 is looked at where a jump leads, though not where it would not. */
begin flags_past_jump
	cmp	%rsi, %rdi		/* +0, 3 */
	mov	%rdi, %rax		/* +3, 3 */
	mov	%rsi, %rcx		/* +6, 3 */
	jmp	1f
	ret
1:	setb	%al
	ret
end flags_past_jump

/* Likewise, further away than anybody looks. */
begin flags_far
	cmp	%rsi, %rdi		/* +0, 3 */
	.rept	12
	mov	%rdi, %rax		/* +3, 3 */
	.endr
	setb	%al
	ret
	.skip	140, 0xf4
end flags_far

/* Likewise, with no room for a jump between what is jumped to. */
begin flags_tight, 1
	cmp	%rsi, %rdi		/* +0, 3 */
1:	mov	%rdi, %rax		/* +3, 3 */
2:	setb	%cl			/* +6, 3 */
	dec	%rdx
	js	1b
	jnz	2b
	ret
	.skip	140, 0xf4
end flags_tight

	.data
	.globl	a_variable
	.type	a_variable, @object
	.size	a_variable, 8
a_variable:
	.quad	0

	.section waymark_sites, "a"
	.balign	4
1:	.long	.Lsite - .
	.long	.Lcold - .
	.long	0, 0
	.skip	16

	.section __rseq_cs, "aw"
	.balign	32
	.long	0, 0
	.quad	.Lstart, .Lcommit - .Lstart, .Labort

	.section .note.GNU-stack,"",@progbits
