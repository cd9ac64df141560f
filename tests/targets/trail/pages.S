/* SPDX-License-Identifier: MIT */
/*
 * Instructions and blocks that lie across pages, one that ends where memory does, and one that
 * lacks its end.
 */
#include "program.inc"

	expect	crossing branch_crossing crossed at_end handler restorer cut handler restorer done
	action	on_fault, handler
_start:
	catch	SIGSEGV, on_fault
	lea	hole(%rip), %rdi
	mov	$4096, %esi
	call_system __NR_munmap
	lea	hole_behind_cut(%rip), %rdi
	mov	$4096, %esi
	call_system __NR_munmap
	mov	$1, %eax
	jmp	crossing
	.balign	4096
	.skip	4096 - 13, 0xcc
crossing:
	inc	%eax
	inc	%eax
	movabs	$0x1122334455667788, %rbx	/* 9 bytes before, 1 behind */
	inc	%eax
	jmp	branch_crossing
	.balign	4096
	.skip	4096 - 3, 0xcc
branch_crossing:
	{disp32} jmp crossed
never_a:
	nop
crossed:
	jmp	at_end
	.balign	4096
	.skip	4096 - 5, 0xcc
at_end:
	nop
	mov	%eax, %eax
	mov	%eax, %eax		/* the last bytes there are */
hole:
	.skip	4096, 0xcc
	.skip	4096 - 4, 0xcc
cut:
	nop
	.byte	0x48, 0xb8, 0x11	/* a movabs that lacks seven bytes */
hole_behind_cut:
	.skip	4096, 0xcc
handler:				/* the first time to one that lacks its end, then on */
	mov	UC_RIP(%rdx), %rax
	lea	cut(%rip), %rcx
	lea	hole(%rip), %rbx
	cmp	%rbx, %rax
	je	1f
	lea	done(%rip), %rcx
1:	mov	%rcx, UC_RIP(%rdx)
	ret
	returns
done:
	quit
	.balign	4096
	.skip	4096, 0xcc
