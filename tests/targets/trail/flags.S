/* SPDX-License-Identifier: MIT */
/*
 * The trap flag is not seen where flags are: pushed, of every size, after a system call, in a
 * signal's frame.
 */
#include "program.inc"

	expect	done
	oracle	unwalked int80
	action	on_fault, handler
_start:
	xor	%ebp, %ebp
	pushf
	pop	%rax
	or	%eax, %ebp
	pushfw
	popw	%ax
	or	%eax, %ebp
	.byte	0x48			/* REX.W */
	pushf
	pop	%rax
	or	%eax, %ebp
	.byte	0x2e, 0xf2, 0x67	/* with prefixes that mean nothing to it */
	pushf
	pop	%rax
	or	%eax, %ebp
	pushf				/* to the very end of memory that is there */
	pop	%rax
	or	%eax, %ebp
	call_system __NR_getpid
	or	%r11d, %ebp
	catch	SIGILL, on_fault
	ud2
	cmpl	$1, (%rsp)		/* argc */
	jne	1f
	mov	$20, %eax
	mov	$0, %r11d
	int	$0x80
	or	%r11d, %ebp
1:	pushf
	popf
	pushf
	pop	%rax
	or	%eax, %ebp
	lea	top(%rip), %rbx		/* two bytes in the last two there are */
	xchg	%rbx, %rsp
	pushfw
	popw	%ax
	pushf
	pop	%rcx
	xchg	%rbx, %rsp
	or	%ecx, %ebp
	or	%eax, %ebp
	mov	%ebp, %edi
	shr	$8, %edi
	and	$1, %edi
done:
	call_system __NR_exit_group
handler:
	mov	UC_EFLAGS(%rdx), %eax
	or	%eax, %ebp
	mov	%rbp, 40 + 80(%rdx)	/* uc_mcontext's rbp */
	addq	$2, UC_RIP(%rdx)
	pushf
	pop	%rax
	or	%rax, 40 + 80(%rdx)
	ret
	returns

	.bss
	.balign	4096
	.skip	4096
top:
