/* SPDX-License-Identifier: MIT */
/* Functions for which a detour has, or has not, a way; span_test.c knows their bytes. Never run. */
#include "target/code/testing/fixture.inc"

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

begin filler_entered
	dec	%edi			/* +0, 2 */
	jnz	1f			/* +2, 2 */
	ret				/* +4, 1 */
1:	nop
	ret				/* +6, 1; filler up to +16 */
end filler_entered

begin calling
	call	*(%rdi)			/* +0, 2 */
	nop
	ret
end calling

begin calling_wide
	call	one_wide		/* +0, 5 */
	ret
end calling_wide

begin with_syscall
	mov	%edi, %eax		/* +0, 2 */
	syscall				/* +2, 2 */
	ret
end with_syscall

/* A table that comes from elsewhere. */
begin computed
	push	%rbx			/* +0, 1 */
	.cfi_adjust_cfa_offset 8
	mov	%edi, %ebx		/* +1, 2 */
	mov	%ebx, %eax		/* +3, 2 */
	movslq	(%rsi,%rax,4), %rax	/* +5, 4 */
	add	%rsi, %rax
	jmp	*%rax
end computed

/* Likewise, with a nop where a probe may be. */
begin computed_probed
	mov	%edi, %eax		/* +0, 2 */
	nop				/* +2, 1 */
	movslq	(%rsi,%rax,4), %rax	/* +3, 4 */
	add	%rsi, %rax
	jmp	*%rax			/* +10, 2 */
	nop
	ret
end computed_probed

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

/* Pushes of registers, more than are moved. */
begin pushes
	endbr64				/* +0, 4 */
	push	%r15			/* +4, 2 */
	push	%rbp			/* +6, 1 */
	push	%rbx			/* +7, 1 */
	mov	%rdi, %rbx		/* +8, 3 */
	pop	%rbx
	pop	%rbp
	pop	%r15
	ret
end pushes

/* More instructions may come before an entry's event than there are choices. */
begin prologue
	push	%rbp			/* +0, 1 */
	mov	%rsp, %rbp		/* +1, 3 */
	mov	%rdi, %rbx		/* +4, 3 */
	xor	%eax, %eax		/* +7, 2 */
	movzbl	%sil, %r10d		/* +9, 4 */
	lea	8(%rsi), %r11		/* +13, 4 */
	mov	%rsp, %r12		/* +17, 3 */
	mov	%r12, %r13		/* +20, 3 */
	leave
	ret
end prologue

/* The last load may not come before the event. */
begin prologue_room
	mov	%rsp, %rbp		/* +0, 3 */
	sub	$40, %rsp		/* +3, 4 */
	mov	%fs:40, %rax		/* +7, 9 */
	mov	%rax, -8(%rbp)		/* +16, 4 */
	movaps	%xmm0, 16(%rsp)		/* +20, 5 */
	mov	a_variable(%rip), %rax	/* +25, 7 */
	mov	(%rdi), %rax		/* +32 */
	mov	%rbp, %rsp
	ret
end prologue_room

begin stops_argument
	nop
	mov	%rax, %rdi
	ret
end stops_argument

begin stops_half_argument
	nop
	mov	%al, %dl
	ret
end stops_half_argument

begin stops_stack_argument
	nop
	mov	%rax, 8(%rsp)
	ret
end stops_stack_argument

begin stops_red_zone
	nop
	mov	%rax, -8(%rsp)
	ret
end stops_red_zone

begin stops_pointer
	nop
	mov	(%rdi), %rax
	ret
end stops_pointer

begin stops_vector
	nop
	movaps	%xmm1, %xmm0
	ret
end stops_vector

begin stops_frame
	nop
	mov	%rax, -8(%rbp)
	ret
end stops_frame

begin prologue_flags
	nop
	cmp	%rax, %rbx
	setb	%al
	ret
end prologue_flags

begin stops_pop
	nop
	pop	%rax
	ret
end stops_pop

begin stops_global
	nop
	mov	%rax, a_variable(%rip)
	ret
end stops_global

begin stops_call
	nop
	call	one_wide
	ret
end stops_call

begin stops_locked
	nop
	lock incl -4(%rsp)
	ret
end stops_locked

begin stops_align
	nop
	and	$-16, %rsp
	ret
end stops_align

begin stops_string
	nop
	stosb
	ret
end stops_string

begin stops_table
	nop
	mov	(%rsp,%rax,8), %rbx
	ret
end stops_table

begin pushes_looped
	push	%rbx			/* +0, 1 */
1:	dec	%rdi			/* +1, 3 */
	jnz	1b
	pop	%rbx
	ret
end pushes_looped

begin pushes_stack
	push	%rsp			/* +0, 1 */
	pop	%rax
	ret
end pushes_stack

begin pushes_constant
	push	$1			/* +0, 2 */
	pop	%rax
	ret
end pushes_constant

begin wide_nop
	nopl	8(%rax,%rax)		/* +0, 5 */
	mov	%rdi, %rax		/* +5, 3 */
	ret
end wide_nop

begin wide_nop_looped
	nopl	8(%rax,%rax)		/* +0, 5 */
1:	dec	%rdi			/* +5, 3 */
	jnz	1b
	ret
end wide_nop_looped

begin wider_nop_looped
	.byte	0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0 /* +0, 10 */
1:	dec	%rdi			/* +10, 3 */
	jnz	1b
	ret
end wider_nop_looped

begin before_wide_nop
	mov	%edi, %eax		/* +0, 2 */
	dec	%rax			/* +2, 3 */
	nopl	8(%rax,%rax)		/* +5, 5 */
	ret
end before_wide_nop

begin pushes_nop
	push	%rbx			/* +0, 1 */
	nopl	8(%rax,%rax)		/* +1, 5 */
	mov	%rdi, %rbx		/* +6, 3 */
	pop	%rbx
	ret
end pushes_nop

/* Its prefix is left out where there is one processor alone. */
begin past_prefix
	test	%edi, %edi		/* +0, 2 */
	jz	1f			/* +2, 2 */
	lock				/* +4, 3 */
1:	incl	(%rsi)
	ret
end past_prefix

/* A thread that comes by the loop does not come by the entry. */
begin prologue_prefix
	.byte	0x3e			/* +0, 5 */
1:	lea	8(%rdi), %rax		/* +1 */
	mov	%rax, %rbx		/* +5, 3 */
	dec	%rdi
	jnz	1b
	ret
end prologue_prefix

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
end with_marker

begin with_restartable
	xor	%eax, %eax		/* +0, 2 */
.Lstart: mov	%fs:(%rdi), %rax	/* +2, 4 */
	inc	%rax			/* +6, 3 */
	mov	%rax, %fs:(%rdi)	/* +9, 4 */
.Lcommit: ret				/* +13 */
.Labort: ret
end with_restartable

begin protected_loop
	endbr64				/* +0, 4 */
1:	mov	$1, %eax		/* +4, 5 */
	dec	%rdi
	jnz	1b
	ret
end protected_loop

/* The return address read, popped, written, its address taken. */
begin looks
	mov	(%rsp), %rax
	ret
end looks

begin looks_deep
	push	%rbx
	.cfi_adjust_cfa_offset 8
	mov	%rdi, %rbx
	mov	8(%rsp), %rax
	pop	%rbx
	.cfi_adjust_cfa_offset -8
	ret
end looks_deep

begin looks_framed
	push	%rbp
	.cfi_def_cfa_offset 16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	sub	$64, %rsp
	mov	8(%rbp), %rdi
	leave
	.cfi_def_cfa rsp, 8
	ret
end looks_framed

begin looks_frame
	push	%rbp
	.cfi_def_cfa_offset 16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	mov	%rbp, %rax
	add	$8, %rax
	mov	(%rax), %rax
	pop	%rbp
	.cfi_def_cfa rsp, 8
	ret
end looks_frame

begin looks_pop
	pop	%rcx
	.cfi_adjust_cfa_offset -8
	jmp	*%rcx
end looks_pop

begin looks_address
	lea	(%rsp), %rax
	mov	(%rax), %rax
	ret
end looks_address

begin looks_copy
	lea	8(%rsp), %r10
	.cfi_def_cfa r10, 0
	and	$-32, %rsp
	push	-8(%r10)
	push	%rbp
	mov	%rsp, %rbp
	mov	8(%rbp), %rax
	leave
	lea	-8(%r10), %rsp
	.cfi_def_cfa rsp, 8
	ret
end looks_copy

/* By another function that it ends in. */
begin ends_looking
	mov	%rsi, %rdi
	jmp	looks_deep
end ends_looking

begin ends_perhaps
	test	%rdi, %rdi
	jz	ends_looking
	xor	%eax, %eax
	ret
end ends_perhaps

begin ends_in_dlsym
	mov	$-1, %rdi
	jmp	dlsym@plt
end ends_in_dlsym

begin ends_in_dlopen
	jmp	*dlopen@GOTPCREL(%rip)
end ends_in_dlopen

begin ends_in_own
	jmp	looks@plt
end ends_in_own

/* An address of the large code model. */
begin ends_in_large
	lea	ends_in_large(%rip), %rax
	movabs	$_GLOBAL_OFFSET_TABLE_ - ends_in_large, %r11
	add	%r11, %rax
	jmp	*%rax
end ends_in_large

begin unwinds
	call	backtrace@plt
	ret
end unwinds

begin profiled
	push	%rbp
	.cfi_def_cfa_offset 16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	call	mcount@plt
	pop	%rbp
	.cfi_def_cfa rsp, 8
	ret
end profiled

begin profiled_first
	call	*__fentry__@GOTPCREL(%rip)
	ret
end profiled_first

/* None of these sees it. */
begin blind
	sub	$24, %rsp
	.cfi_adjust_cfa_offset 24
	lock orq $0, (%rsp)
	mov	(%rsp), %rax
	mov	%rax, 16(%rsp)
	call	dlsym@plt
	call	ends_looking
	lea	24(%rsp), %rsp
	.cfi_adjust_cfa_offset -24
	lock orq $0, (%rsp)
	mov	8(%rsp), %rdx
	jz	1f
	jmp	free@plt
1:	jmp	blind_too
end blind

begin blind_too
	push	%rbp
	.cfi_def_cfa_offset 16
	mov	%rsp, %rbp
	.cfi_def_cfa_register rbp
	mov	16(%rbp), %rax
	mov	(%rbp), %rcx
	leave
	.cfi_def_cfa rsp, 8
	jnz	blind
	jmp	*(%rdi)
end blind_too

begin long_moves
	cmp	%rsi, %rdi		/* +0, 3 */
	.rept	12
	mov	%rdi, %rax		/* +3, 3 */
	.endr
	setb	%al
	ret
end long_moves

/* Nothing is behind it. */
	.section last_text, "ax"
begin last, 1
	dec	%rdi			/* +0, 3 */
	ret				/* +3, 1 */
	ret
end last

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
